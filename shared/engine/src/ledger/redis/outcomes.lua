-- ARGV: position, how the entry there begins, most entries, about how many bytes
-- -> epoch, length of the log, position (0 in a new log), entries after it, 1 if the run is parked
local since, mark, most, bytes = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
begin()
local there = since > 0 and redis.call('LINDEX', LOG, since)
if since > 0 and not (there and string.sub(there, 1, #mark) == mark) then
    begin_anew() -- the end of the log was lost, as in a failover, or the cursor is of an earlier memory
    since = 0
end
local length = redis.call('LLEN', LOG) - 1
local entries, at = {}, since + 1
while at <= length and #entries < most and bytes > 0 do
    for _, entry in ipairs(redis.call('LRANGE', LOG, at, at + 15)) do
        entries[#entries + 1] = entry
        bytes = bytes - #entry
    end
    at = at + 16
end
local parked = redis.call('HGET', OPEN, '') == 'parked' and 1 or 0
return { redis.call('LINDEX', LOG, 0), length, since, entries, parked }
