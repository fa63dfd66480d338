-- ARGV: `parked` or nothing
if whole() then
    redis.call('HSET', OPEN, '', ARGV[1])
end
