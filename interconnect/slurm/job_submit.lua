-- job_submit/lua: a batch job with --comm-pattern is asked to run on as few leaf switches as the interconnect manager finds good for that pattern.
--
-- slurm.conf: JobSubmitPlugins=lua, TopologyPlugin=topology/tree; this file beside it. Slurm stays the one that chooses nodes: only --switches is set, and only
-- where the user hasn't. The job waits for such nodes at most WAIT_S. Whatever goes wrong, the job is submitted as it is, with one line in slurmctld's log.
-- Works with Lua 5.1 (Debian's Slurm) to 5.4. sbatch hands the pattern's name on in FERRULE_COMM_PATTERN (the SPANK plugin does that).

local SOCKET = os.getenv("FERRULE_FABRIC_SOCKET") or "/run/ferrule-fabric.sock"
local WAIT_S = 300
-- slurmctld waits for this; the manager remembers its answers, so only the first job of a kind may be too early.
local PATIENCE_S = 0.5
local RANKS_MAX = 1000000
local VARIABLE = "FERRULE_COMM_PATTERN"

-- A number that the user has given, or nil: Slurm has large ones for "not given".
local function given(number)
  if type(number) == "number" and number >= 1 and number <= RANKS_MAX then return math.floor(number) end
  return nil
end

-- The names that the SPANK plugin, mpiexec and the manager take: nothing in them means anything to a shell or JSON. Not %w, which depends on the locale.
local function is_name(text)
  return type(text) == "string" and #text < 256 and text:match("^[A-Za-z0-9_.+:@/-]+$") ~= nil
end

local function pattern_of(job)
  local found, text = pcall(function() return job.environment[VARIABLE] end)
  return found and is_name(text) and text or nil
end

local function ranks_and_nodes(job)
  local nodes, tasks = given(job.min_nodes), given(job.num_tasks)
  local per_node = given(job.ntasks_per_node)
  if not tasks and nodes and per_node then tasks = nodes * per_node end
  return tasks, nodes or (tasks and per_node and math.ceil(tasks / per_node)) or nil
end

-- How many leaf switches at most; nil and why where there is no advice.
local function advised(pattern, ranks, nodes)
  local encoded = pattern:gsub("[^A-Za-z0-9_.-]", function(character) return string.format("%%%02X", character:byte()) end)
  local url = string.format("http://manager/v1/advice?pattern=%s&ranks=%d&nodes=%d", encoded, ranks, nodes)
  local command = string.format("curl --silent --show-error --max-time %.1f --unix-socket '%s' '%s' 2>&1", PATIENCE_S, SOCKET, url)
  local pipe = io.popen(command)
  if not pipe then return nil, "curl can't be run" end
  local answer = pipe:read("*a") or ""
  pipe:close()
  local switches = tonumber(answer:match('"switches"%s*:%s*(%d+)'))
  if switches and switches >= 1 then return switches end
  if answer:match('"switches"%s*:%s*null') then return nil, "any nodes are good" end
  return nil, answer:match('"problem"%s*:%s*"([^"]*)"') or answer:sub(1, 100):gsub("%c", " ")
end

function slurm_job_submit(job, partitions, uid)
  local pattern = pattern_of(job)
  if not pattern or given(job.req_switch) then return slurm.SUCCESS end
  local ranks, nodes = ranks_and_nodes(job)
  if not ranks or not nodes or nodes < 2 then return slurm.SUCCESS end
  local worked, switches, why = pcall(advised, pattern, ranks, nodes)
  if worked and switches then
    job.req_switch = switches
    job.wait4switch = WAIT_S
    slurm.log_info("ferrule: %s on %d nodes: at most %d leaf switches", pattern, nodes, switches)
  else
    slurm.log_info("ferrule: %s on %d nodes: no choice of nodes: %s", pattern, nodes, tostring(worked and why or switches))
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
