import { compileStrict } from '../../../../kernel/api/validate.js'
import { openObject, type Channel, type Clock, type Cluster, type FromSchema }
  from '../../../../kernel/index.js'
import type { OpenTask } from '../lost-tasks.js'
import { JOINED_HASHES, splitHashes, type PrefixTable } from '../prefixes.js'
import { hasEnded, TASK_LINGER_MS, taskSchema, type Task, type TaskTable } from '../tasks.js'

/** Minimum ms between two sends of changes. */
export const SEND_MS = 500
/** Delay in ms of the first change after a pause, so that later changes share its message. */
export const GATHER_MS = 20
/** Limit on tasks, ended ids and loads in one message; any more follow in other messages. */
export const MESSAGE_TASKS_MAX = 128
/** Limit on tasks stored per other node. */
export const KEPT_MAX = 1024

const text = { type: 'string', maxLength: 256 } as const
const listOf = <const I extends object>(items: I) =>
  ({ type: 'array', items, maxItems: MESSAGE_TASKS_MAX } as const)
/** Schema of a map by runner or task. */
const mapOf = <const V extends object>(value: V) => ({
  type: 'object', propertyNames: text, maxProperties: MESSAGE_TASKS_MAX, additionalProperties: value
} as const)

/** A message from one node to another. It contains no prompts, texts or media. */
const messageSchema = openObject({
  /** True if the receiver must discard its earlier state, all of which follows in one or more messages. */
  whole: { type: 'boolean' },
  /** Open tasks by runner, without those that the receiver requested; a missing runner has none. */
  loads: mapOf({ type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  tasks: listOf(taskSchema),
  /** Ids of tasks that were sent as open and no longer exist. */
  ended: listOf(text),
  /** By task id, the install id of the node that requested the task; absent if the sender requested it. */
  given: mapOf(text),
  /** See `PrefixTable.adopt`. */
  key: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  /** Hashes of the prompts of the instances whose tasks are in the message; older nodes send none. */
  prefixes: mapOf({ type: 'string', maxLength: 1024, pattern: JOINED_HASHES })
}, ['whole', 'loads', 'tasks', 'ended'])
export type GossipMessage = Omit<FromSchema<typeof messageSchema>, 'loads' | 'given' | 'prefixes'> &
  { loads: Record<string, number>, given?: Record<string, string>, prefixes?: Record<string, string> }

/** Requests the complete state, for a node that has just started. */
interface Question { whole: 'please' }

interface Sent { whole: boolean, change: number, open: Set<string> }

interface Received { loads: Map<string, number>, tasks: Map<string, StoredTask> }

interface StoredTask { task: Task, requester: string | null, mono: number }

interface TaskGossipParts {
  cluster: Pick<Cluster, 'channel' | 'nodes' | 'onPeers'>
  clock: Clock
  tasks: TaskTable
  prefixes: PrefixTable
  /** Called when the link to a node closes; `open` are its open tasks as last sent. */
  missing? (installId: string, open: OpenTask[]): void
}

/**
 * Gossip about open tasks, over a channel instead of the documents: the load of each runner, and the tasks in
 * /state. It is lossy and up to half a second late; after a failed send a node gets everything again.
 */
export class TaskGossip {
  readonly #parts: TaskGossipParts
  readonly #channel: Channel<GossipMessage | Question>
  readonly #sent = new Map<string, Sent>()
  readonly #received = new Map<string, Received>()
  readonly #stopListening: () => void
  #cancel: (() => void) | null = null
  #sentMono = -Infinity

  constructor (parts: TaskGossipParts) {
    this.#parts = parts
    const { cluster } = parts
    this.#channel = cluster.channel('runners.tasks', (from, message) => this.#receive(from, message))
    this.#stopListening = cluster.onPeers(({ installId, up }) => {
      const open = [...this.#received.get(installId)?.tasks.values() ?? []]
        .filter(({ task: { status } }) => !hasEnded(status))
      if (!up) parts.missing?.(installId, open)
      this.#received.delete(installId)
      this.#sent.delete(installId)
      if (up) this.#sendAll(installId)
    })
    for (const { installId, live, self } of cluster.nodes()) if (live && !self) this.#sendAll(installId)
    this.#channel.broadcast({ whole: 'please' })
  }

  /** Call when a task of this node changes; the change is sent soon. */
  changed (): void {
    if (this.#cancel !== null || this.#sent.size === 0) return
    const { clock } = this.#parts
    const wait = Math.max(GATHER_MS, this.#sentMono + SEND_MS - clock.mono())
    this.#cancel = clock.after(wait, () => {
      this.#cancel = null
      this.#sentMono = clock.mono()
      this.#sendChanges()
    })
  }

  /**
   * Number of open tasks of a runner that other nodes requested, as its node last sent; null until that node
   * has sent a message since its link opened.
   */
  load (installId: string, runnerId: string): number | null {
    const received = this.#received.get(installId)
    return received === undefined ? null : received.loads.get(runnerId) ?? 0
  }

  tasks (): Task[] {
    return [...this.#received.values()].flatMap(({ tasks }) => {
      this.#sweep(tasks)
      return [...tasks.values()].map(({ task }) => task)
    })
  }

  /** Sends ended tasks first, because other nodes would otherwise count them as lost with this node. */
  close (): void {
    if (this.#cancel !== null) this.#sendChanges()
    this.#cancel?.()
    this.#stopListening()
    this.#channel.close()
  }

  #sendAll (installId: string): void {
    this.#sent.set(installId, { whole: true, change: 0, open: new Set() })
    this.changed()
  }

  #sendChanges (): void {
    let again = false
    for (const [to, sent] of this.#sent) if (this.#sendTo(to, sent)) again = true
    if (again) this.changed()
  }

  #sendTo (to: string, sent: Sent): boolean {
    const { tasks: table, prefixes: { key }, prefixes } = this.#parts
    const { tasks, next, more } = table.changedSince(sent.change, MESSAGE_TASKS_MAX)
    const dropped = [...sent.open].filter((taskId) => table.get(taskId) === undefined)
    const ended = dropped.slice(0, MESSAGE_TASKS_MAX)
    if (!sent.whole && tasks.length === 0 && ended.length === 0) return false
    const loads = Object.fromEntries(Object.entries(table.loads(to)).slice(0, MESSAGE_TASKS_MAX))
    const given = Object.fromEntries(tasks.flatMap(({ taskId }) => {
      const { member } = table.requesterOf(taskId)
      return member === null ? [] : [[taskId, member]]
    }))
    const held = Object.fromEntries(tasks.map(({ instanceId: id }) => [id, prefixes.hashesOf(id).join('')]))
    const message = { whole: sent.whole, loads, tasks, ended, given, key, prefixes: held }
    if (!this.#channel.send(to, message)) {
      this.#sent.set(to, { whole: true, change: 0, open: new Set() })
      return true
    }
    for (const taskId of ended) sent.open.delete(taskId)
    for (const { taskId, status } of tasks) {
      if (hasEnded(status)) sent.open.delete(taskId)
      else sent.open.add(taskId)
    }
    sent.whole = false
    sent.change = next
    return more || dropped.length > MESSAGE_TASKS_MAX
  }

  #receive (from: string, message: unknown): boolean {
    if ((message as Question | null)?.whole === 'please') this.#sendAll(from)
    else if (isGossip(message)) this.#take(from, message)
    else return false
    return true
  }

  #take (
    from: string, { whole, loads, tasks, ended, given = {}, key, prefixes = {} }: GossipMessage
  ): void {
    if (key !== undefined) this.#parts.prefixes.adopt(key)
    for (const [id, held] of Object.entries(prefixes)) this.#parts.prefixes.remember(id, splitHashes(held))
    const known = this.#received.get(from)
    const received: Received = whole || known === undefined ? { loads: new Map(), tasks: new Map() } : known
    received.loads = new Map(Object.entries(loads))
    const mono = this.#parts.clock.mono()
    for (const taskId of ended) received.tasks.delete(taskId)
    for (const { taskId, commandId, instanceId, modelId, capability, status, createdAt } of tasks) {
      // A newer version may send more fields than /state declares.
      const task = { taskId, commandId, instanceId, modelId, capability, status, createdAt }
      received.tasks.delete(taskId)
      const requester = Object.hasOwn(given, taskId) ? given[taskId]! : null
      received.tasks.set(taskId, { task, requester, mono })
    }
    this.#sweep(received.tasks)
    this.#received.set(from, received)
  }

  #sweep (tasks: Received['tasks']): void {
    const now = this.#parts.clock.mono()
    for (const [taskId, { task, mono }] of tasks) {
      const old = hasEnded(task.status) && now - mono >= TASK_LINGER_MS
      if (old || tasks.size > KEPT_MAX) tasks.delete(taskId)
    }
  }
}

/**
 * The tasks of the whole cluster by id: served here, routed to other nodes, and from gossip. The serving
 * node's status wins, unless this node routed the task and has already recorded its end. Pure.
 */
export function mergeTasks (
  own: readonly Task[], routed: readonly Task[], gossiped: readonly Task[]
): Record<string, { Inference: Task }> {
  const all = new Map(routed.map((task) => [task.taskId, task]))
  for (const task of gossiped) {
    const here = all.get(task.taskId)
    if (here === undefined || !hasEnded(here.status) || hasEnded(task.status)) all.set(task.taskId, task)
  }
  for (const task of own) all.set(task.taskId, task)
  return Object.fromEntries([...all].map(([taskId, task]) => [taskId, { Inference: task }]))
}

export const isGossip = (value: unknown): value is GossipMessage => compileStrict(messageSchema)(value)
