-- KEYS: account. ARGV: now, what was reserved, what was used
local account = redis.call('HMGET', KEYS[1], 'spent', 'reserved')
if not account[1] then
    return
end
local reserved = math.max(tonumber(account[2]) - tonumber(ARGV[2]), 0)
redis.call('HSET', KEYS[1], 'spent', number(tonumber(account[1]) + tonumber(ARGV[3])), 'reserved', number(reserved),
    'touched', number(clock(ARGV[1])))
