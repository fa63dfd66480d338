-- KEYS: account, its calls, what was settled without it. ARGV: what is spent.
if redis.call('HEXISTS', KEYS[1], 'spent') == 0 then
    local late = tonumber(redis.call('GET', KEYS[3]) or 0)
    redis.call('HSET', KEYS[1], 'spent', string.format('%.17g', tonumber(ARGV[1]) + late), 'held', 0)
    redis.call('DEL', KEYS[2], KEYS[3])
end
redis.call('PEXPIRE', KEYS[1], 604800000)
