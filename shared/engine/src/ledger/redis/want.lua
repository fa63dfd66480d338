-- ARGV: published, due, then task key, stage and lane of each -> the keys that are new
begin()
local new = {}
for n = 3, #ARGV, 3 do
    local key = ARGV[n]
    if redis.call('SISMEMBER', ENDED, key) == 0 then
        local task = read(key) or { attempts = 0, crashes = 0 }
        if not task.lane then
            task.stage, task.lane, task.published_ms, task.due_ms = ARGV[n + 1], ARGV[n + 2], ARGV[1], ARGV[2]
            write(key, task)
            new[#new + 1] = key
        end
    end
end
keep(WEEK_MS)
return new
