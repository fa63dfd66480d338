-- ARGV: task key, holder, now, end of the lease, 1 if redelivered, grace period, longest lease, time of the retry that the
-- message is for ('' if none) -> 'ended' | 'parked' | 'outdated' | 'held', holder, end | 'granted', attempts, crashes, 1 if
-- requested
local key, holder, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
open_run()
if redis.call('SISMEMBER', ENDED, key) == 1 then
    return { 'ended' }
end
local task = read(key) or { attempts = 0, crashes = 0 }
local held_until = tonumber(task.until_ms)
local shortened = held_until and held_until > now + tonumber(ARGV[7])
if shortened then
    held_until = now + tonumber(ARGV[7])
    task.until_ms = millis(held_until)
end
if held_until and task.holder ~= holder then
    local suspected = task.suspected or ARGV[5] == '1'
    local expires = held_until <= now and not task.grace
    if expires then
        held_until = now + tonumber(ARGV[6])
        task.grace, task.until_ms = true, millis(held_until)
    end
    if held_until > now then
        if expires or shortened or suspected and not task.suspected then
            task.suspected = suspected or nil
            write(key, task)
        end
        return { 'held', task.holder, task.until_ms }
    end
    if suspected then
        task.crashes = task.crashes + 1
    end
    task.holder, task.until_ms = nil, nil
end
task.grace, task.suspected, task.parked = nil, nil, nil
if not task.holder and redis.call('HGET', OPEN, '') == 'parked' then
    task.parked = true
    write(key, task)
    return { 'parked' }
end
if ARGV[8] ~= '' and task.retry and cjson.decode(task.retry).next_ms ~= tonumber(ARGV[8]) then
    return { 'outdated' }
end
task.holder, task.until_ms, task.retry = holder, ARGV[4], nil
write(key, task)
extend_ttl(math.max(tonumber(ARGV[4]) - now, 0) + IDLE_MS)
return { 'granted', task.attempts, task.crashes, task.lane and 1 or 0 }
