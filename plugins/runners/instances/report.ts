import type { FromSchema } from '../../../kernel/index.js'
import { fail, isVerbError, modelInPath, ok, plain, showBytes, warn } from '../../../kernel/cli/index.js'
import type { Check, CheckContext, Checker, ClusterState, StatusPart } from '../../../kernel/cli/index.js'
import type { routes } from '../routes.js'

/** The parts of GET /state about instances; a node without a cluster or with an older svc may omit some. */
export interface ModelState extends ClusterState {
  instances?: Record<string, Record<string, unknown>>
  runners?: Record<string, Record<string, unknown>>
  waitingInstances?: Record<string, { modelId: string, message?: string }>
  nodeResources?: Record<string, EngineFacts | null>
}

interface EngineFacts {
  engineBackends?: Record<string, readonly string[]>
  /** By engine, the description of its program; null if the program is missing. */
  engines?: Record<string, { words?: string } | null>
  engineNotes?: Record<string, string>
}

/** The lines of `svc status` about instances and unavailable models. */
export const status: StatusPart = {
  async run ({ state, look }) {
    const instances = instancesOf(state)
    const unavailable = await readUnavailable(look, unservedModels(state))
    return {
      json: { instances, unavailable },
      above: [`Instances: ${instances.filter((one) => one.ready).length} of ${instances.length} ready`],
      below: unavailable.map(({ modelId, brokenLink, message, remedy }) =>
        `${modelId}: ${plain(message)} [${brokenLink}]\n  ${plain(remedy)}`)
    }
  }
}

/** The check in `svc doctor` for nodes low on memory and placed models that do not answer. */
export const doctor: Checker = {
  run: async ({ state }) => [...checkEngines(state), ...checkPressure(state), ...checkModels(state)]
}

interface Assigned {
  modelId?: string
  runnerToShard?: Record<string, unknown>
  nodeToRunner?: Record<string, string>
}

function assignedIn (tagged: Record<string, unknown>): Assigned {
  const [instance] = Object.values(tagged) as { shardAssignments?: Assigned }[]
  return instance?.shardAssignments ?? {}
}

const kindOf = ({ runners = {} }: ModelState, runnerId: string): string =>
  Object.keys(runners[runnerId] ?? {})[0] ?? 'no runner'
const serves = (kind: string): boolean => kind === 'RunnerReady' || kind === 'RunnerRunning'
const waitingModels = ({ waitingInstances = {} }: ModelState): string[] =>
  Object.values(waitingInstances).map(({ modelId }) => modelId)

interface InstanceRow { instanceId: string, modelId: string | null, ready: boolean }

function instancesOf (state: ModelState): InstanceRow[] {
  return Object.entries(state.instances ?? {}).map(([instanceId, tagged]) => {
    const { modelId = null, runnerToShard = {} } = assignedIn(tagged)
    const kinds = Object.keys(runnerToShard).map((id) => kindOf(state, id))
    return { instanceId, modelId, ready: kinds.length > 0 && kinds.every(serves) }
  })
}

function unservedModels (state: ModelState): string[] {
  const unready = instancesOf(state)
    .flatMap(({ modelId, ready }) => modelId === null || ready ? [] : [modelId])
  return [...new Set([...unready, ...waitingModels(state)])].sort()
}

/** All fields but the first two and the links are null for an available model. */
type Availability = FromSchema<typeof routes.availability.reply>

interface Unavailable { modelId: string, brokenLink: string, message: string, remedy: string }

/** Returns the given models that are unavailable; skips a model whose availability cannot be read. */
async function readUnavailable (
  look: CheckContext['look'], models: readonly string[]
): Promise<Unavailable[]> {
  const all = await Promise.all(models.map((id) =>
    look<Availability>(`/models/${modelInPath(id)}/availability`)))
  return all.flatMap((one) => isVerbError(one) || one.available
    ? []
    : [{ modelId: one.model_id, brokenLink: one.broken_link!, message: one.message!, remedy: one.remedy! }])
}

export function checkModels (state: ModelState): Check[] {
  const instances = Object.values(state.instances ?? {})
  const checks = instances.flatMap((tagged) => {
    const { modelId = 'a model', nodeToRunner = {} } = assignedIn(tagged)
    return Object.entries(nodeToRunner).map(([nodeId, runnerId]) =>
      checkRank(modelId, nameIn(state, nodeId), kindOf(state, runnerId),
        (state.runners?.[runnerId]?.['RunnerFailed'] as { errorMessage?: string } | undefined)?.errorMessage))
  })
  const waiting = Object.values(state.waitingInstances ?? {}).map(({ modelId: id, message }) =>
    warn(`model ${plain(id)}`, `waits for a place${because(message)}`,
      `\`svc why ${plain(id)}\` shows the reason.`, { code: 'waiting_for_node', about: [plain(id)] }))
  const found = [...checks.filter((check) => check.result !== 'ok'), ...waiting]
  return found.length > 0 || instances.length === 0
    ? found
    : [ok('models', `${instances.length} placed, all runners ready`)]
}

const because = (why = ''): string => why === '' ? '' : `: ${plain(why).slice(0, 300)}`

function checkRank (modelId: string, node: string, kind: string, why?: string): Check {
  const model = plain(modelId)
  const [name, message] = [`model ${model}`, `${kind} on ${node}${because(why)}`]
  if (serves(kind)) return ok(name, message)
  const [make, code] = kind === 'RunnerFailed' ? [fail, 'runner_failed'] : [warn, 'loading']
  return make(name, message, `\`svc why ${model}\` shows why it does not answer.`,
    { code, about: [model, node] })
}

const nameIn = ({ nodeIdentities }: ModelState, nodeId: string): string =>
  plain(nodeIdentities[nodeId]?.friendlyName ?? nodeId)

/** The backends of each engine of a node, and why an engine does not use a GPU. */
export function checkEngines (state: ModelState): Check[] {
  return Object.entries(state.nodeResources ?? {}).flatMap(([nodeId, resources]) => {
    const { engineBackends = {}, engines = {}, engineNotes = {} } = resources ?? {}
    const descriptions = Object.entries(engineBackends).map(([engine, backends]) => {
      const driver = engines[engine]
      const on = driver === null ? 'its program is missing' : backends.join(', ')
      return `${engine}: ${on}${driver?.words === undefined ? '' : ` (${driver.words})`}`
    })
    const node = nameIn(state, nodeId)
    return descriptions.length === 0 ? [] : [ok(`engines on ${node}`,
      plain([...descriptions, ...Object.values(engineNotes)].join('; ')), { code: 'engines', about: [node] })]
  })
}

/** Share of a node's total memory below which the node is low on memory. */
const MEMORY_LITTLE = 0.05

export function checkPressure (state: ModelState): Check[] {
  return Object.entries(state.nodeMemory ?? {}).flatMap(([nodeId, memory]) => {
    if (memory === null) return []
    const [free, total] = [memory.ramAvailable.inBytes, memory.ramTotal.inBytes]
    if (free >= total * MEMORY_LITTLE) return []
    const node = nameIn(state, nodeId)
    const there = Object.values(state.instances ?? {}).map(assignedIn)
      .find(({ nodeToRunner = {} }) => Object.hasOwn(nodeToRunner, nodeId))
    return [warn(`memory of ${node}`, `${showBytes(free)} free of ${showBytes(total)}`,
      '`svc ps` lists the loaded models; stop those that you do not need: ' +
      `\`svc stop ${plain(there?.modelId ?? 'MODEL')}\`.`, { code: 'memory_low', about: [node] })]
  })
}
