-- KEYS: account. ARGV: now, limit, amount -> 0 reserved, 1 no account, 2 not now, 3 too much
local now, limit, amount = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local account = redis.call('HMGET', KEYS[1], 'spent', 'reserved', 'touched')
if not account[1] then
    return 1
end
local spent, reserved = tonumber(account[1]), tonumber(account[2])
if spent + reserved + amount > limit then
    return (spent + amount <= limit and now <= tonumber(account[3]) + 600000) and 2 or 3
end
redis.call('HSET', KEYS[1], 'reserved', number(reserved + amount), 'touched', number(now))
return 0
