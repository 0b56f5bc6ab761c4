import { delay } from '../../../kernel/index.js'
import type { Clock, Cluster, Logger, Session } from '../../../kernel/index.js'
import { reasonOf } from '../process/errors.js'
import type { Task } from './tasks.js'

/** A task that failed, as the event tells it. */
export interface TaskFailure { taskId: string, commandId: string, errorType: string, errorMessage: string }

/** An open task of another node; `asker` is the install id of the node that gave it, if one did. */
export interface OpenTask { task: Task, asker: string | null }

/**
 * A node that is missing may only have lost a link, others may still reach it: whoever keeps the instances
 * decides, and removes those that are lost. Where nobody keeps them it is gone after this time, ms.
 */
export const GONE_MS = 30_000
/** How often it is looked while a node is missing, ms. */
export const LOOK_MS = 500
/** Failures of one moment go to the master together, ms. */
export const GATHER_MS = 20
/** Most failures in one command; most that wait for a master; most that the master remembers. */
export const AT_ONCE = 64
const HELD_MAX = 4096
const TOLD_MAX = 8192
/** Pause after a command that failed, ms. */
const AGAIN_MS = 1_000

export interface LossesParts {
  clock: Clock
  log: Logger
  session: Session
  cluster: Pick<Cluster, 'nodes' | 'resolve'>
  /** Whether an instance is placed. */
  placed (instanceId: string): boolean
  /** Has the master tell of these; resolves when it has. */
  send (failures: TaskFailure[]): Promise<unknown>
  /** Emits the event; only called on the master. */
  tell (failure: TaskFailure): void
}

/**
 * The master tells of each lost task, once. A node that sees one fail has the master tell it; what was under
 * way on a node that died, and that no other node waits for, the master knows from what nodes tell each
 * other: those tasks are lost with their instance.
 */
export interface Losses {
  /** A task that this node served, or had another one serve, has failed. */
  report (failure: TaskFailure): void
  /** On the master: tells those that were not told. */
  take (failures: readonly TaskFailure[]): void
  /** The link to a node closed while it had these tasks. */
  missing (installId: string, open: readonly OpenTask[]): void
  close (): void
}

interface Missing { installId: string, nodeId: string, since: number, open: readonly OpenTask[] }

export function createLosses (parts: LossesParts): Losses { return new TaskLosses(parts) }

class TaskLosses implements Losses {
  readonly #parts: LossesParts
  /** By task id: what the master has not taken yet. */
  readonly #held = new Map<string, TaskFailure>()
  readonly #told = new Set<string>()
  readonly #end = new AbortController()
  readonly #ignoreSession: () => void
  #missing: Missing[] = []
  #stopLooking: (() => void) | null = null
  #sending = false

  constructor (parts: LossesParts) {
    this.#parts = parts
    this.#ignoreSession = parts.session.onChange(() => { this.#look(); void this.#send() })
  }

  report (failure: TaskFailure): void {
    if (this.#parts.session.isMaster) {
      this.take([failure])
      return
    }
    if (this.#held.size < HELD_MAX) this.#held.set(failure.taskId, failure)
    void this.#send()
  }

  take (failures: readonly TaskFailure[]): void {
    for (const failure of failures) {
      if (this.#told.has(failure.taskId)) continue
      this.#told.add(failure.taskId)
      this.#parts.tell(failure)
    }
    for (const taskId of this.#told) {
      if (this.#told.size <= TOLD_MAX) break
      this.#told.delete(taskId)
    }
  }

  missing (installId: string, open: readonly OpenTask[]): void {
    const { clock, cluster } = this.#parts
    if (open.length === 0) return
    const nodeId = cluster.resolve(installId)?.nodeId ?? ''
    this.#missing.push({ installId, nodeId, since: clock.mono(), open })
    this.#stopLooking ??= clock.every(LOOK_MS, () => { this.#look() })
  }

  close (): void {
    this.#end.abort()
    this.#ignoreSession()
    this.#stopLooking?.()
  }

  /** Which of the missing nodes are gone, or back. Every node looks: the next master may be any of them. */
  #look (): void {
    const { clock, cluster, placed, session: { isMaster, masterNodeId } } = this.#parts
    const nodes = new Map(cluster.nodes().map((node) => [node.installId, node]))
    this.#missing = this.#missing.flatMap((missing): Missing[] => {
      const { installId, nodeId, since, open } = missing
      const node = nodes.get(installId)
      const same = node?.nodeId === nodeId
      // Only the link was broken: its tasks go on.
      if (same && node.live) return []
      // Who is to tell is not known yet.
      if (!isMaster && (masterNodeId === null || masterNodeId === nodeId)) return [missing]
      const gone = !same || clock.mono() - since >= GONE_MS
      const left = gone ? [] : open.filter(({ task }) => placed(task.instanceId))
      // A node that waits for a task reports it, and knows better how it ended.
      const orphans = open.filter((one) => !left.includes(one) &&
        (one.asker === null || nodes.get(one.asker)?.live !== true))
      if (isMaster) this.take(orphans.map(({ task }) => lostWith(task, node?.name ?? nodeId)))
      return left.length === 0 ? [] : [{ ...missing, open: left }]
    })
    if (this.#missing.length > 0) return
    this.#stopLooking?.()
    this.#stopLooking = null
  }

  /** Sends what is held, as soon as there is a master; whatever it has not taken is sent again. */
  async #send (): Promise<void> {
    const { clock, log, session, send } = this.#parts
    const { signal } = this.#end
    if (this.#sending) return
    this.#sending = true
    try {
      await delay(clock, GATHER_MS, signal)
      while (this.#held.size > 0 && session.masterNodeId !== null) {
        const some = [...this.#held.values()].slice(0, AT_ONCE)
        try {
          await send(some)
          for (const { taskId } of some) this.#held.delete(taskId)
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
