-- The memory of one run; begins every script about one. KEYS: log, ended, open, due, jobs, under one hash tag.
--   log    the epoch, then in order of recording: task key, `d` or `f`, outcome or failure as JSON
--   ended  task keys in the log
--   open   task key -> task without an outcome, as JSON; the empty key -> `parked` while the run is (times are strings: numbers would be cut to 14 digits)
--   due    task keys that are wanted, by when they are overdue: their due time or the end of their lease, 0 if parked
--   jobs   ids of jobs that wait for the end of the run
-- Each key holds one thing from its beginning, so that it is never empty, which for Redis is gone. So if any is
-- missing, it was evicted; then what is left must not be trusted, and another memory begins.
local LOG, ENDED, OPEN, DUE, JOBS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local WEEK_MS, IDLE_MS = 604800000, 600000

local function parts()
    return redis.call('EXISTS', LOG, ENDED, OPEN, DUE, JOBS)
end

local function whole()
    return parts() == 5
end

-- Keeps the run for `ms` from now, or longer if it is. Little later is as good: not every write sets it again.
local function keep(ms)
    if redis.call('PTTL', LOG) < 0.9 * ms then
        for _, key in ipairs(KEYS) do
            redis.call('PEXPIRE', key, ms)
        end
    end
end

local function begin_anew()
    if parts() > 0 then -- not always: a script that has deleted is no longer stopped when memory is full
        redis.call('UNLINK', LOG, ENDED, OPEN, DUE, JOBS)
    end
    local time = redis.call('TIME')
    redis.call('RPUSH', LOG, time[1] .. string.format('%06d', time[2]))
    redis.call('SADD', ENDED, '')
    redis.call('HSET', OPEN, '', '')
    redis.call('ZADD', DUE, '+inf', '')
    redis.call('SADD', JOBS, '')
    keep(IDLE_MS)
end

local function begin()
    if not whole() then
        begin_anew()
    end
end

local function millis(number)
    return string.format('%.0f', number)
end

local function read(key)
    local json = redis.call('HGET', OPEN, key)
    return json and cjson.decode(json)
end

local function write(key, task)
    redis.call('HSET', OPEN, key, cjson.encode(task))
    if task.lane then
        local at = task.parked and 0 or math.max(tonumber(task.due_ms), tonumber(task.until_ms) or 0)
        redis.call('ZADD', DUE, millis(at), key)
    end
end

