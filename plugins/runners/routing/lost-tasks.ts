import { delay } from '../../../kernel/index.js'
import type { Clock, Cluster, FromSchema, Logger, Session } from '../../../kernel/index.js'
import type { events } from '../declarations.js'
import { reasonOf } from '../process/errors.js'
import type { Task } from './tasks.js'

export type TaskFailure = FromSchema<typeof events.TaskFailed.payload>

/** An open task of another node; `asker` is the install id of the node that gave it, if one did. */
export interface OpenTask { task: Task, asker: string | null }

/**
 * A missing node may only have lost its link to this one. The plugin `placement` decides whether its
 * instances are lost, and removes them; where that plugin is off, the node counts as gone after this time,
 * ms.
 */
export const NODE_GONE_MS = 30_000
/** How often missing nodes are checked, ms. */
export const CHECK_MS = 500
/** How long failures are collected before they are sent to the master together, ms. */
export const GATHER_MS = 20
/** Most failures in one command, most that wait for a master, and most ids that the master remembers. */
export const MAX_PER_COMMAND = 64
const UNSENT_MAX = 4096
const EMITTED_MAX = 8192
/** Pause after a command that failed, ms. */
const AGAIN_MS = 1_000

export interface LossesParts {
  clock: Clock
  log: Logger
  session: Session
  cluster: Pick<Cluster, 'nodes' | 'resolve'>
  placed (instanceId: string): boolean
  /** Has the master emit the events of these; resolves when it has. */
  send (failures: TaskFailure[]): Promise<unknown>
  /** Emits the event; only called on the master. */
  tell (failure: TaskFailure): void
}

interface Missing { installId: string, nodeId: string, since: number, open: readonly OpenTask[] }

/**
 * Has the master emit one TaskFailed event for each lost task. A node that sees a task fail reports it to the
 * master. Tasks on a node that died, and that no other node waits for, the master knows from gossip: they are
 * lost with their instance.
 */
export class LostTasks {
  readonly #parts: LossesParts
  /** By task id: reports that the master has not acknowledged yet. */
  readonly #unsent = new Map<string, TaskFailure>()
  readonly #emitted = new Set<string>()
  readonly #end = new AbortController()
  readonly #ignoreSession: () => void
  #missing: Missing[] = []
  #stopLooking: (() => void) | null = null
  #sending = false

  constructor (parts: LossesParts) {
    this.#parts = parts
    this.#ignoreSession = parts.session.onChange(() => { this.#look(); void this.#send() })
  }

  /** A task that this node served, or had another one serve, has failed. */
  report (failure: TaskFailure): void {
    if (this.#parts.session.isMaster) {
      this.take([failure])
      return
    }
    if (this.#unsent.size < UNSENT_MAX) this.#unsent.set(failure.taskId, failure)
    void this.#send()
  }

  /** On the master: emits the events of those that have none yet. */
  take (failures: readonly TaskFailure[]): void {
    for (const failure of failures) {
      const { taskId, commandId } = failure
      // A call whose node was lost before it named the task is reported with its command's id in place of it.
      const same = taskId === commandId ? `of ${commandId}` : commandId
      if (this.#emitted.has(taskId) || this.#emitted.has(same)) continue
      this.#emitted.add(taskId).add(`of ${commandId}`)
      this.#parts.tell(failure)
    }
    for (const taskId of this.#emitted) {
      if (this.#emitted.size <= EMITTED_MAX) break
      this.#emitted.delete(taskId)
    }
  }

  /** The link to a node closed while it had these tasks. */
  missing (installId: string, open: readonly OpenTask[]): void {
    const { clock, cluster } = this.#parts
    if (open.length === 0) return
    const nodeId = cluster.resolve(installId)?.nodeId ?? ''
    this.#missing.push({ installId, nodeId, since: clock.mono(), open })
    this.#stopLooking ??= clock.every(CHECK_MS, () => { this.#look() })
  }

  close (): void {
    this.#end.abort()
    this.#ignoreSession()
    this.#stopLooking?.()
  }

  /** Sorts out which missing nodes are gone or back. Every node does, since any may be the next master. */
  #look (): void {
    const { clock, cluster, placed, session: { isMaster, masterNodeId } } = this.#parts
    const nodes = new Map(cluster.nodes().map((node) => [node.installId, node]))
    this.#missing = this.#missing.flatMap((missing): Missing[] => {
      const { installId, nodeId, since, open } = missing
      const node = nodes.get(installId)
      const same = node?.nodeId === nodeId
      // Only the link was broken; the tasks continue.
      if (same && node.live) return []
      // There is no master to emit the events yet.
      if (!isMaster && (masterNodeId === null || masterNodeId === nodeId)) return [missing]
      const gone = !same || clock.mono() - since >= NODE_GONE_MS
      const left = gone ? [] : open.filter(({ task }) => placed(task.instanceId))
      // A live node that waits for a task reports it itself, and knows better how it ended.
      const orphans = open.filter((one) => !left.includes(one) &&
        (one.asker === null || nodes.get(one.asker)?.live !== true))
      if (isMaster) this.take(orphans.map(({ task }) => lostWith(task, node?.name ?? nodeId)))
      return left.length === 0 ? [] : [{ ...missing, open: left }]
    })
    if (this.#missing.length > 0) return
    this.#stopLooking?.()
    this.#stopLooking = null
  }

  /** Sends the reports once there is a master, and again what it has not acknowledged. */
  async #send (): Promise<void> {
    const { clock, log, session, send } = this.#parts
    const { signal } = this.#end
    if (this.#sending) return
    this.#sending = true
    try {
      await delay(clock, GATHER_MS, signal)
      while (this.#unsent.size > 0 && session.masterNodeId !== null) {
        const some = [...this.#unsent.values()].slice(0, MAX_PER_COMMAND)
        try {
          await send(some)
          for (const { taskId } of some) this.#unsent.delete(taskId)
        } catch (error) {
          log.debug({ error: reasonOf(error), tasks: some.length }, 'lost tasks are told later')
          await delay(clock, AGAIN_MS, signal)
        }
      }
    } catch { /* closed */ } finally {
      this.#sending = false
    }
  }
}

const lostWith = ({ taskId, commandId, modelId }: Task, node: string): TaskFailure => ({
  taskId, commandId, errorType: 'instance_lost',
  errorMessage: `The task of ${modelId} was lost with node ${node}.`
})
