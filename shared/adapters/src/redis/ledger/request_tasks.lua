-- ARGV: publication time, due time, then key, stage and lane of each task -> keys that were not requested before
open_run()
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
extend_ttl(WEEK_MS)
return new
