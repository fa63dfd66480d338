-- KEYS: account. ARGV: now, what is spent. An account that no one asks for goes after a week: it is made anew from the log.
if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('HSET', KEYS[1], 'spent', ARGV[2], 'reserved', 0, 'touched', number(clock(ARGV[1])))
end
redis.call('PEXPIRE', KEYS[1], 604800000)
