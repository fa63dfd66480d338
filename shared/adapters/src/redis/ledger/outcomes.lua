-- ARGV: position, expected prefix of the entry there, limit of entries, approximate limit of bytes
-- -> epoch, length of the log, position (0 in a new log), entries after it, 1 if the run is parked
local since, prefix, limit, bytes = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
open_run()
local entry = since > 0 and redis.call('LINDEX', LOG, since)
if since > 0 and not (entry and string.sub(entry, 1, #prefix) == prefix) then
    create_run() -- the end of the log was lost, as in a failover, or the cursor belongs to an earlier log
    since = 0
end
local length = redis.call('LLEN', LOG) - 1
local entries, at = {}, since + 1
while at <= length and #entries < limit and bytes > 0 do
    for _, entry in ipairs(redis.call('LRANGE', LOG, at, at + 15)) do
        entries[#entries + 1] = entry
        bytes = bytes - #entry
    end
    at = at + 16
end
local parked = redis.call('HGET', OPEN, '') == 'parked' and 1 or 0
return { redis.call('LINDEX', LOG, 0), length, since, entries, parked }
