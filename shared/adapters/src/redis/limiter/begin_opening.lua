-- KEYS: account. ARGV: the proposed opening -> the opening that was begun first. It is lost with the account.
redis.call('HSETNX', KEYS[1], 'opening', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 604800000)
return redis.call('HGET', KEYS[1], 'opening')
