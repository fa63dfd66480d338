-- State of one run. Included before every script about a run. KEYS: log, ended, open, due, jobs, under one hash tag.
--   log    the epoch, then in order of recording: task key, `d` (done) or `f` (failed), outcome or failure as JSON
--   ended  task keys in the log
--   open   task key -> task without an outcome, as JSON; the empty key -> `parked` while the run is parked. Times are strings:
--          numbers would be cut to 14 digits
--   due    requested task keys by the time when they are overdue: their due time or the end of their lease, 0 if parked
--   jobs   ids of jobs that wait for the end of the run
-- Redis deletes empty collections, so each key holds a placeholder from the start. A missing key was evicted: then the others
-- must not be trusted, and the state starts anew.
local LOG, ENDED, OPEN, DUE, JOBS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local WEEK_MS, IDLE_MS = 604800000, 600000

local function existing_keys()
    return redis.call('EXISTS', LOG, ENDED, OPEN, DUE, JOBS)
end

local function is_complete()
    return existing_keys() == 5
end

-- Lets the run expire no earlier than `ms` from now. Some writes are skipped: 90 % of that time is enough.
local function extend_ttl(ms)
    if redis.call('PTTL', LOG) < 0.9 * ms then
        for _, key in ipairs(KEYS) do
            redis.call('PEXPIRE', key, ms)
        end
    end
end

local function create_run()
    if existing_keys() > 0 then -- only if needed: after a deletion, Redis no longer stops the script when memory is full
        redis.call('UNLINK', LOG, ENDED, OPEN, DUE, JOBS)
    end
    local time = redis.call('TIME')
    redis.call('RPUSH', LOG, time[1] .. string.format('%06d', time[2]))
    redis.call('SADD', ENDED, '')
    redis.call('HSET', OPEN, '', '')
    redis.call('ZADD', DUE, '+inf', '')
    redis.call('SADD', JOBS, '')
    extend_ttl(IDLE_MS)
end

local function open_run()
    if not is_complete() then
        create_run()
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

