-- ARGV: `parked`, or '' to resume
if is_complete() then
    redis.call('HSET', OPEN, '', ARGV[1])
end
