-- KEYS: account, its reservations, the amount settled before it was opened. ARGV: amount spent so far, the opening
local account = redis.call('HMGET', KEYS[1], 'spent', 'opening')
if not account[1] and account[2] == ARGV[2] then
    local settled_before = tonumber(redis.call('GET', KEYS[3]) or 0)
    redis.call('HSET', KEYS[1], 'spent', string.format('%.17g', tonumber(ARGV[1]) + settled_before), 'held', 0)
    redis.call('DEL', KEYS[2], KEYS[3])
end
redis.call('PEXPIRE', KEYS[1], 604800000)
