import type { Channel, Clock, Cluster } from '../../../../kernel/index.js'
import type { OpenTask } from '../losses.js'
import { isOver, TASK_LINGER_MS } from '../tasks.js'
import type { Task, TaskTable } from '../tasks.js'

/** A node tells of its tasks at most this often, ms. */
export const TELL_MS = 500
/** After a quiet time it waits so long for more to tell, ms. */
export const GATHER_MS = 20
/** Most tasks, ends and loads in one message. */
export const TOLD_MAX = 128
/** Most tasks of another node that are kept. */
export const HEARD_MAX = 1024

/** What a node tells another one. Neither prompts nor texts nor media are in it. */
export interface News {
  /** All that was told before is void: what follows is the whole, in one message or more. */
  whole: boolean
  /** Open tasks by runner, without those that the other node asked for; a runner left out has none. */
  loads: Record<string, number>
  /** Tasks that are new or have changed. */
  tasks: Task[]
  /** Ids of tasks that were told as open and are not kept any more. */
  ended: string[]
  /** Install ids of the nodes that gave some of the tasks, by task id; the others entered at the teller. */
  given?: Record<string, string>
}

/** A node that has just started asks for the whole. */
interface Question { whole: 'please' }

/** How far another node has been told. */
interface Told { whole: boolean, change: number, open: Set<string> }

/** What another node has told. */
interface Heard { loads: Map<string, number>, tasks: Map<string, Kept> }

interface Kept { task: Task, asker: string | null, mono: number }

export interface TaskGossipParts {
  cluster: Pick<Cluster, 'channel' | 'nodes' | 'onPeers'>
  clock: Clock
  /** The tasks that this node serves. */
  tasks: TaskTable
  /** The link to a node closed; these are the tasks that it had open, as it told them last. */
  missing? (installId: string, open: OpenTask[]): void
}

/**
 * What nodes tell each other of their open work, over a channel and not through the documents: who has how
 * much to do, and the tasks that /state shows. Lossy and late by half a second; a node that could not be
 * told is told everything again.
 */
export class TaskGossip {
  readonly #parts: TaskGossipParts
  readonly #channel: Channel<News | Question>
  readonly #told = new Map<string, Told>()
  readonly #heard = new Map<string, Heard>()
  readonly #stopListening: () => void
  #cancel: (() => void) | null = null
  #toldMono = -Infinity

  constructor (parts: TaskGossipParts) {
    this.#parts = parts
    const { cluster } = parts
    this.#channel = cluster.channel('runners.tasks', (from, message) => { this.#receive(from, message) })
    this.#stopListening = cluster.onPeers(({ installId, up }) => {
      const open = [...this.#heard.get(installId)?.tasks.values() ?? []]
        .filter(({ task: { status } }) => !isOver(status))
      if (!up) parts.missing?.(installId, open)
      this.#heard.delete(installId)
      this.#told.delete(installId)
      if (up) this.#tellAll(installId)
    })
    for (const { installId, live, self } of cluster.nodes()) if (live && !self) this.#tellAll(installId)
    this.#channel.broadcast({ whole: 'please' })
  }

  /** A task of this node has changed: the others hear of it soon. */
  changed (): void {
    if (this.#cancel !== null || this.#told.size === 0) return
    const { clock } = this.#parts
    const wait = Math.max(GATHER_MS, this.#toldMono + TELL_MS - clock.mono())
    this.#cancel = clock.after(wait, () => {
      this.#cancel = null
      this.#toldMono = clock.mono()
      this.#tell()
    })
  }

  /**
   * Open tasks of a runner that other nodes than this one asked for, as its node said last; null while that
   * node has said nothing since it was linked.
   */
  load (installId: string, runnerId: string): number | null {
    const heard = this.#heard.get(installId)
    return heard === undefined ? null : heard.loads.get(runnerId) ?? 0
  }

  /** The tasks of the other nodes. */
  tasks (): Task[] {
    return [...this.#heard.values()].flatMap(({ tasks }) => {
      this.#sweep(tasks)
      return [...tasks.values()].map(({ task }) => task)
    })
  }

  /** What has ended by now is told before: else the others would take it for lost with this node. */
  close (): void {
    if (this.#cancel !== null) this.#tell()
    this.#cancel?.()
    this.#stopListening()
    this.#channel.close()
  }

  #tellAll (installId: string): void {
    this.#told.set(installId, { whole: true, change: 0, open: new Set() })
    this.changed()
  }

  #tell (): void {
    let again = false
    for (const [to, told] of this.#told) if (this.#tellOne(to, told)) again = true
    if (again) this.changed()
  }

  /** True when there is more to tell. */
  #tellOne (to: string, told: Told): boolean {
    const { tasks: table } = this.#parts
    const { tasks, next, more } = table.changedSince(told.change, TOLD_MAX)
    const gone = [...told.open].filter((taskId) => table.get(taskId) === undefined)
    const ended = gone.slice(0, TOLD_MAX)
    if (!told.whole && tasks.length === 0 && ended.length === 0) return false
    const loads = Object.fromEntries(Object.entries(table.loads(to)).slice(0, TOLD_MAX))
    const given = Object.fromEntries(tasks.flatMap(({ taskId }) => {
      const asker = table.askerOf(taskId)
      return asker === null ? [] : [[taskId, asker]]
    }))
    if (!this.#channel.send(to, { whole: told.whole, loads, tasks, ended, given })) {
      this.#told.set(to, { whole: true, change: 0, open: new Set() })
      return true
    }
    for (const taskId of ended) told.open.delete(taskId)
    for (const { taskId, status } of tasks) {
      if (isOver(status)) told.open.delete(taskId)
      else told.open.add(taskId)
    }
    told.whole = false
    told.change = next
    return more || gone.length > TOLD_MAX
  }

  #receive (from: string, message: unknown): void {
    if ((message as Question | null)?.whole === 'please') this.#tellAll(from)
    else if (isNews(message)) this.#take(from, message)
  }

  #take (from: string, { whole, loads, tasks, ended, given = {} }: News): void {
    const known = this.#heard.get(from)
    const heard: Heard = whole || known === undefined ? { loads: new Map(), tasks: new Map() } : known
    heard.loads = new Map(Object.entries(loads))
    const mono = this.#parts.clock.mono()
    for (const taskId of ended) heard.tasks.delete(taskId)
    for (const task of tasks) {
      heard.tasks.delete(task.taskId)
      const asker = Object.hasOwn(given, task.taskId) ? given[task.taskId]! : null
      heard.tasks.set(task.taskId, { task, asker, mono })
    }
    this.#sweep(heard.tasks)
    this.#heard.set(from, heard)
  }

  /** Forgets what has been over for a while, and the oldest of too many. */
  #sweep (tasks: Heard['tasks']): void {
    const now = this.#parts.clock.mono()
    for (const [taskId, { task, mono }] of tasks) {
      const old = isOver(task.status) && now - mono >= TASK_LINGER_MS
      if (old || tasks.size > HEARD_MAX) tasks.delete(taskId)
    }
  }
}

/**
 * The tasks of the whole cluster by id. What the serving node says counts, unless this node, which gave it
 * the task, knows its end already. Pure.
 */
export function mergeTasks (
  own: readonly Task[], given: readonly Task[], told: readonly Task[]
): Record<string, { Inference: Task }> {
  const all = new Map(given.map((task) => [task.taskId, task]))
  for (const task of told) {
    const here = all.get(task.taskId)
    if (here === undefined || !isOver(here.status) || isOver(task.status)) all.set(task.taskId, task)
  }
  for (const task of own) all.set(task.taskId, task)
  return Object.fromEntries([...all].map(([taskId, task]) => [taskId, { Inference: task }]))
}

const STATUSES: ReadonlySet<unknown> =
  new Set(['Pending', 'Running', 'Complete', 'TimedOut', 'Failed', 'Cancelled'])
const TEXTS = ['taskId', 'commandId', 'instanceId', 'modelId', 'capability', 'createdAt'] as const
const TEXT_CHARS = 256

const isText = (value: unknown): boolean => typeof value === 'string' && value.length <= TEXT_CHARS

function isTask (value: unknown): value is Task {
  if (typeof value !== 'object' || value === null) return false
  const task = value as Record<string, unknown>
  return STATUSES.has(task['status']) && TEXTS.every((key) => isText(task[key])) &&
    Object.keys(task).length === TEXTS.length + 1
}

function isNews (value: unknown): value is News {
  if (typeof value !== 'object' || value === null) return false
  const { whole, loads, tasks, ended, given = {} } = value as Partial<Record<keyof News, unknown>>
  const list = (all: unknown, fits: (one: unknown) => boolean): boolean =>
    Array.isArray(all) && all.length <= TOLD_MAX && all.every(fits)
  return typeof whole === 'boolean' && list(tasks, isTask) && list(ended, isText) &&
    typeof loads === 'object' && loads !== null &&
    list(Object.keys(loads), isText) && list(Object.values(loads), isCount) &&
    typeof given === 'object' && given !== null && list(Object.values(given), isText)
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
