-- ARGV: now, keys to skip, most -> keys of tasks that are overdue
if not whole() then
    return {}
end
return redis.call('ZRANGEBYSCORE', DUE, '-inf', ARGV[1], 'LIMIT', ARGV[2], ARGV[3])
