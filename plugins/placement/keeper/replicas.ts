import type { Instance, PlacementIntent } from '../../runners/service.js'
import { AUTOPLACE, idOf, intentOf, modelOf } from '../place/instance.js'
import { IDLE_SECONDS, type ReplicaPolicy } from '../place/policies.js'
import { serves } from '../progress/progress.js'
import { stays, type Step } from './decide.js'
import type { FitChecks, Situation } from './roles.js'

/** Milliseconds for which too many requests must be open, and between two attempts. */
export const BUSY_MS = 10_000
/** After so many failures of a model within so many ms no instance of it is added. */
const FAILURES_MAX = 2
export const PAUSE_MS = 300_000

export interface ReplicaLoad {
  policies: ReadonlyMap<string, ReplicaPolicy>
  /** Open requests by instance id, waiting or running; at most about half a second old. */
  open: ReadonlyMap<string, number>
}

interface Sums { open: number, instances: number, min: number, max: number, targetOpen: number }
interface Timer { state: string, at: number, tried: number }
interface Failed { modelId: string | undefined, nodeIds: readonly string[], at: number }

/**
 * Decides when to add and remove instances by the policies of their models. Callers pass the time. A new
 * master starts with new timers; everything else follows from the control document.
 */
export class Replicas {
  readonly #timers = new Map<string, Timer>()
  readonly #sums = new Map<string, Sums>()
  readonly #failed = new Map<string, Failed>()
  #began = false

  /** The sums behind the last decision about a model. */
  sums (modelId: string): Sums { return this.#sums.get(modelId)! }

  /** The steps to take at `mono`, in monotonic ms: for each model at most one instance is added or removed. */
  look (situation: Situation, { policies, open }: ReplicaLoad, judge: FitChecks, mono: number): Step[] {
    this.#noteFailures(situation, mono)
    return [...policies].flatMap(([modelId, policy]): Step[] => {
      const { min, max, target_open: targetOpen, idle_seconds: idle = IDLE_SECONDS } = policy
      const there = instancesOf(situation, modelId)
      const serving = there.filter((one) => serves(situation, one))
      const opened = serving.reduce((sum, one) => sum + (open.get(idOf(one)) ?? 0), 0)
      const count = there.length
      this.#sums.set(modelId, { open: opened, instances: count, min, max, targetOpen })
      const need = situation.stopped.has(modelId) || this.#loads(situation, modelId, there) ? 'none'
        : count < min ? 'short'
          : count < max && opened > targetOpen * serving.length ? 'busy'
            : count > min && (count > max || opened <= targetOpen * (serving.length - 1)) ? 'spare' : 'none'
      const wait = { none: 0, short: 0, busy: BUSY_MS, spare: idle * 1000 }[need]
      if (!this.#isDue(modelId, `${need} ${count}`, wait, mono) || need === 'none') return []
      if (need === 'spare') {
        const [newest] = serving.filter((one) => since(one) !== '' && !((open.get(idOf(one)) ?? 0) > 0))
          .sort((a, b) => since(b).localeCompare(since(a)))
        return newest === undefined ? [] : [{ do: 'retire', id: idOf(newest), modelId }]
      }
      return this.#add(situation, judge, { modelId, there, opened, mono })
    })
  }

  #add (
    { now }: Situation, judge: FitChecks,
    { modelId, there, opened, mono }: { modelId: string, there: Instance[], opened: number, mono: number }
  ): Step[] {
    const failed = [...this.#failed.values()].filter((one) =>
      one.modelId === modelId && mono - one.at < PAUSE_MS)
    const { moves: _, systemRole: __, ...like } = there[0] === undefined ? AUTOPLACE : intentOf(there[0])
    const at = new Date(now).toISOString()
    const intent: PlacementIntent = {
      ...like, origin: 'request', ttlSeconds: null, replaces: null, failedOn: [], replica: at
    }
    if (failed.length >= FAILURES_MAX || !judge.fits(modelId, intent)) return []
    const entry = {
      modelId, intent: { ...intent, failedOn: failed.flatMap(({ nodeIds }) => nodeIds) }, replaces: null,
      since: at, reason: 'replica', message: `Its policy adds one: ${opened} open requests at ${there.length}.`
    }
    const id = judge.newId()
    return [{ do: 'wait', id, entry }, { do: 'place', id, entry }]
  }

  /** True once the state has lasted for `wait` ms; after that again every BUSY_MS. */
  #isDue (modelId: string, state: string, wait: number, mono: number): boolean {
    const old = this.#timers.get(modelId)
    const { at, tried } = old?.state === state ? old
      : { at: Math.max(mono + wait, old?.tried ?? 0), tried: old?.tried ?? 0 }
    const due = mono >= at
    const next = mono + BUSY_MS
    this.#timers.set(modelId, { state, ...due && !state.startsWith('none') ? { at: next, tried: next } : { at, tried } })
    return due
  }

  #loads ({ waiting, ...situation }: Situation, modelId: string, there: readonly Instance[]): boolean {
    return [...waiting.values()].some((entry) =>
      entry.modelId === modelId && entry.intent.moves === undefined) ||
      there.some((one) => !serves(situation, one) && !this.#failed.has(idOf(one)))
  }

  /** Counts failures from now on, since the clocks of nodes differ; a new master goes by their times. */
  #noteFailures ({ failures, now }: Situation, mono: number): void {
    const known = new Set(failures.map(({ instanceId }) => instanceId))
    for (const id of this.#failed.keys()) if (!known.has(id)) this.#failed.delete(id)
    for (const { instanceId, modelId, affectedNodeIds: nodeIds, recordedAt = '' } of failures) {
      if (this.#failed.has(instanceId)) continue
      const age = this.#began ? 0 : Math.max(0, now - Date.parse(recordedAt)) || 0
      this.#failed.set(instanceId, { modelId, nodeIds, at: mono - age })
    }
    this.#began = true
  }
}

const since = (instance: Instance): string => intentOf(instance).replica ?? ''

/** The instances of a model that are not draining, without those on a drained node that have a successor. */
function instancesOf ({ instances }: Situation, modelId: string): Instance[] {
  const own = instances.filter((one) => modelOf(one) === modelId && stays(one))
  const moved = new Set(own.map((one) => intentOf(one).moves))
  return own.filter((one) => !moved.has(idOf(one)))
}
