-- ARGV: cursor, most entries, about how many bytes -> epoch, length of the log, entries after the cursor
local since, most, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
begin()
if since >= redis.call('LLEN', LOG) then
    begin_anew() -- the end of the log is lost, as after a failover: the cursor saw more than there is
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
return { redis.call('LINDEX', LOG, 0), length, entries }
