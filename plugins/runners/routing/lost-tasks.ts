import { delay } from '../../../kernel/index.js'
import type { Clock, Cluster, FromSchema, Logger, Session } from '../../../kernel/index.js'
import type { events } from '../declarations.js'
import { reasonOf } from '../process/errors.js'
import type { Task } from './tasks.js'

export type TaskFailure = FromSchema<typeof events.TaskFailed.payload>

/** An open task on another node; `requester` is the install id of the node that requested it, if any. */
export interface OpenTask { task: Task, requester: string | null }

/**
 * Milliseconds after which a missing node counts as gone. Until then it may only have lost its link to this
 * node; the plugin `placement` may decide earlier that its instances are lost, and removes them.
 */
export const NODE_GONE_MS = 30_000
export const CHECK_MS = 500
/** Milliseconds for which failures are collected before they are sent to the master. */
export const GATHER_MS = 20
/** Limits on failures per command, failures that wait for a master, and ids that the master remembers. */
export const MAX_PER_COMMAND = 64
const UNSENT_MAX = 4096
const EMITTED_MAX = 8192
/** Milliseconds before the next attempt after a command fails. */
const AGAIN_MS = 1_000

export interface LossesParts {
  clock: Clock
  log: Logger
  session: Session
  cluster: Pick<Cluster, 'nodes' | 'resolve'>
  placed (instanceId: string): boolean
  /** Sends the failures to the master, which emits their events. */
  send (failures: TaskFailure[]): Promise<unknown>
  emit (failure: TaskFailure): void
}

interface Missing { installId: string, nodeId: string, since: number, open: readonly OpenTask[] }

/**
 * Emits one TaskFailed event per lost task through the master. A node that sees its task fail reports it to
 * the master. The master adds tasks of dead nodes for which no live node waits: it has them from gossip, and
 * they are lost with their instance.
 */
export class LostTasks {
  readonly #parts: LossesParts
  readonly #unsent = new Map<string, TaskFailure>()
  readonly #emitted = new Set<string>()
  readonly #end = new AbortController()
  readonly #ignoreSession: () => void
  #missing: Missing[] = []
  #stopLooking: (() => void) | null = null
  #sending = false

  constructor (parts: LossesParts) {
    this.#parts = parts
    this.#ignoreSession = parts.session.onChange(() => { this.#check(); void this.#send() })
  }

  report (failure: TaskFailure): void {
    if (this.#parts.session.isMaster) {
      this.take([failure])
      return
    }
    if (this.#unsent.size < UNSENT_MAX) this.#unsent.set(failure.taskId, failure)
    void this.#send()
  }

  /** On the master: emits one event for each failure that has none yet. */
  take (failures: readonly TaskFailure[]): void {
    for (const failure of failures) {
      const { taskId, commandId } = failure
      // If the node was lost before the task had an id, the report contains the command id instead.
      const same = taskId === commandId ? `of ${commandId}` : commandId
      if (this.#emitted.has(taskId) || this.#emitted.has(same)) continue
      this.#emitted.add(taskId).add(`of ${commandId}`)
      this.#parts.emit(failure)
    }
    for (const taskId of this.#emitted) {
      if (this.#emitted.size <= EMITTED_MAX) break
      this.#emitted.delete(taskId)
    }
  }

  /** Call when the link to a node closes, with the tasks that the node had open. */
  missing (installId: string, open: readonly OpenTask[]): void {
    const { clock, cluster } = this.#parts
    if (open.length === 0) return
    const nodeId = cluster.resolve(installId)?.nodeId ?? ''
    this.#missing.push({ installId, nodeId, since: clock.mono(), open })
    this.#stopLooking ??= clock.every(CHECK_MS, () => { this.#check() })
  }

  close (): void {
    this.#end.abort()
    this.#ignoreSession()
    this.#stopLooking?.()
  }

  /**
   * Finds missing nodes that have ended or returned. Every node does this, because any node may become the
   * master.
   */
  #check (): void {
    const { clock, cluster, placed, session: { isMaster, masterNodeId } } = this.#parts
    const nodes = new Map(cluster.nodes().map((node) => [node.installId, node]))
    this.#missing = this.#missing.flatMap((missing): Missing[] => {
      const { installId, nodeId, since, open } = missing
      const node = nodes.get(installId)
      const same = node?.nodeId === nodeId
      // Only the link broke; the tasks continue.
      if (same && node.live) return []
      // There is no master yet that can emit the events.
      if (!isMaster && (masterNodeId === null || masterNodeId === nodeId)) return [missing]
      const isGone = !same || clock.mono() - since >= NODE_GONE_MS
      const left = isGone ? [] : open.filter(({ task }) => placed(task.instanceId))
      // A live node that waits for a task reports the loss itself, with more detail.
      const orphans = open.filter((one) => !left.includes(one) &&
        (one.requester === null || nodes.get(one.requester)?.live !== true))
      if (isMaster) this.take(orphans.map(({ task }) => lostWith(task, node?.name ?? nodeId)))
      return left.length === 0 ? [] : [{ ...missing, open: left }]
    })
    if (this.#missing.length > 0) return
    this.#stopLooking?.()
    this.#stopLooking = null
  }

  /** Sends the reports once there is a master, and repeats those that the master has not acknowledged. */
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
          log.debug({ error: reasonOf(error), tasks: some.length }, 'lost tasks are reported later')
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
