import { NoSafeFit, planCapacity, inUseClosure, newestFirst, planRecency } from './plans.js'
import { KeyedLock } from '../files/queues.js'
import type { Clock, Logger } from '../../../kernel/index.js'
import { modelIdProblem } from '../files/names.js'
import type { ModelRoot } from '../files/root.js'
import type { Copy } from '../types.js'
import type { CompanionsOf } from './plans.js'
import type { Uses } from './uses.js'

/** How often the last use of what is in use is written down. */
const REFRESH_MS = 60_000
/** What was used this short before a start stays, whatever the budget. */
const KEEP_AT_START_MS = 30 * 60_000

/** Why a copy went. */
export type Trigger = 'deactivation' | 'startup' | 'capacity' | 'purge' | 'store_delete'

export interface Evicted { modelId: string, freedBytes: number, trigger: Trigger }

/** What a purge did; `error` names the copies that could not be removed, and why. */
export interface Purged {
  removed: string[]
  skippedInUse: string[]
  freedBytes: number
  error: string | null
}

/** A copy, and what would become of it. */
export interface Outlook {
  modelId: string
  sizeBytes: number
  /** What removing it gives back. */
  freeableBytes: number
  lastUsedMs: number
  inUse: boolean
  /** Whether the next pass over idle copies takes it, as it is beyond what is kept. */
  overBudget: boolean
}

/** What a purge would do, and the copies it looked at, in the order in which evictions take them. */
export interface PurgePreview extends Purged { copies: Outlook[] }

/** How much idle data of a root stays. */
export interface EvictorSettings {
  /** Whether the passes after a deactivation and at start evict at all. */
  cleanupOnDeactivate: boolean
  /** Idle data those passes leave, bytes. */
  keepRecentBytes: number
  /** What stays free after a transfer, bytes. */
  headroomBytes: number
}

export interface EvictorOptions {
  root: Pick<ModelRoot, 'root' | 'list' | 'read' | 'remove' | 'touch' | 'pending' | 'discard'>
  uses: Uses
  companionsOf: CompanionsOf
  /** Models with a transfer under way; their copies and companions stay. */
  active: () => Iterable<string>
  settings: EvictorSettings
  clock: Clock
  log: Logger
  onEvicted: (evicted: Evicted) => void
  /** The volume that holds the root. */
  volume: () => Promise<{ freeBytes: number }>
}

const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

/** Decides which copies of one root stay on the disk, and removes the others. Passes over all take turns. */
export class Evictor {
  readonly #options: EvictorOptions
  readonly #passes = new KeyedLock()
  readonly #removing = new Set<string>()

  constructor (options: EvictorOptions) { this.#options = options }

  /** Writes down uses (at use, at release and every minute); returns what ends that. */
  watch (): () => void {
    const { uses, clock } = this.#options
    const stops = [
      uses.onUse((modelId) => { void this.#touch([modelId]) }),
      uses.onIdle((modelId) => { void this.#touch([modelId]) }),
      clock.every(REFRESH_MS, () => { void this.#touch(uses.ids()) })
    ]
    return () => { for (const stop of stops) stop() }
  }

  /** The pass of the start. One that fails is logged. */
  async startup (): Promise<void> {
    await this.#pass(async () => { await this.#startupPass() }).catch((err: unknown) => {
      this.#options.log.error({ err }, 'the eviction pass at start failed; idle copies stay')
    })
  }

  /** The pass after an instance of the model ended; resolves with what it evicted. */
  async deactivated (modelId: string): Promise<string[]> {
    return await this.#pass(async () => {
      await this.#touch([modelId])
      return await this.#recencyPass('deactivation')
    })
  }

  /** Makes room for a transfer; the model `keep` and its companions stay. Throws `NoSafeFit`. */
  async makeRoom (bytes: number, keep: string): Promise<{ evicted: string[] }> {
    if (bytes <= 0) return { evicted: [] }
    return await this.#pass(async () => await this.#capacityPass(bytes, keep))
  }

  /** Throws `NoSafeFit` where `makeRoom` would; evicts nothing. */
  async requireRoom (additionalBytes: number, keep: string): Promise<void> {
    const { settings: { headroomBytes }, volume } = this.#options
    const safe = this.#safe(keep)
    const idle = (await this.#copies()).filter(({ modelId }) => !safe.has(modelId))
    const plan = planCapacity({ additionalBytes, freeBytes: (await volume()).freeBytes, headroomBytes, idle })
    if (!plan.fits) throw new NoSafeFit(plan.sentence)
  }

  /** Removes one model's copy, or every copy, that nothing uses and no transfer holds. Never rejects. */
  async purge (modelId?: string, trigger: 'purge' | 'store_delete' = 'purge'): Promise<Purged> {
    // That of one model looks at nothing else, and waits for no pass over all of them.
    if (modelId !== undefined) return await this.#purgePass(modelId, trigger)
    return await this.#pass(async () => await this.#purgePass(undefined, trigger))
  }

  /** What `purge` would do now; nothing is removed. Never rejects. */
  async preview (modelId?: string): Promise<PurgePreview> {
    const { root } = this.#options
    try {
      return await this.#preview(modelId)
    } catch (err) {
      const error = `${root.root}: ${messageOf(err)}`
      return { removed: [], skippedInUse: [], freedBytes: 0, error, copies: [] }
    }
  }

  /** Every copy svc wrote, newest use first; a companion of a used model is in use. */
  async storage (): Promise<{ copies: (Copy & { inUse: boolean })[], totalBytes: number }> {
    const { uses, companionsOf } = this.#options
    const listed = await this.#ours()
    const used = inUseClosure(uses.ids(), companionsOf)
    const copies = listed.map((copy) => ({ ...copy, inUse: used.has(copy.modelId) }))
    return { copies, totalBytes: copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) }
  }

  /** Passes over all copies run one after another. */
  async #pass<T> (work: () => Promise<T>): Promise<T> { return await this.#passes.run('pass', work) }

  /** A clock that was ahead must not protect a copy for ever: such times are set to now, on the disk too. */
  async #startupPass (): Promise<void> {
    const now = this.#options.clock.now()
    const ahead = (await this.#ours()).filter(({ lastUsedMs }) => lastUsedMs > now)
    await Promise.all(ahead.map(async ({ modelId }) => { await this.#touchOne(modelId) }))
    await this.#recencyPass('startup', now - KEEP_AT_START_MS)
  }

  async #recencyPass (trigger: Trigger, keepSinceMs = Infinity): Promise<string[]> {
    const { cleanupOnDeactivate, keepRecentBytes } = this.#options.settings
    if (!cleanupOnDeactivate) return []
    const copies = await this.#copies()
    const safe = this.#safe()
    const idle = copies.filter(({ modelId }) => !safe.has(modelId))
    const evicted: string[] = []
    for (const modelId of planRecency({ idle, budgetBytes: keepRecentBytes, keepSinceMs })) {
      if (await this.#evict(modelId, trigger) !== undefined) evicted.push(modelId)
    }
    return evicted
  }

  /** Plans anew after each copy: one may be in use by now, give back less than thought, or refuse to go. */
  async #capacityPass (additionalBytes: number, keep: string): Promise<{ evicted: string[] }> {
    const { settings: { headroomBytes }, volume } = this.#options
    // Counted on from here, not read again: some filesystems give space back seconds after the removal.
    let { freeBytes } = await volume()
    let left = await this.#copies()
    const evicted: string[] = []
    for (;;) {
      const safe = this.#safe(keep)
      const idle = left.filter(({ modelId }) => !safe.has(modelId))
      const plan = planCapacity({ additionalBytes, freeBytes, headroomBytes, idle })
      if (!plan.fits) throw new NoSafeFit(plan.sentence)
      const next = plan.evict[0]
      if (next === undefined) return { evicted }
      const freedBytes = await this.#evict(next, 'capacity', keep)
      if (freedBytes !== undefined) evicted.push(next)
      freeBytes += freedBytes ?? 0
      left = left.filter(({ modelId }) => modelId !== next)
    }
  }

  async #purgePass (wanted: string | undefined, trigger: Trigger): Promise<Purged> {
    const { root, active, log } = this.#options
    const removed: string[] = []
    const skipped = new Set<string>()
    const errors: string[] = []
    let freedBytes = 0
    const one = async (modelId: string): Promise<void> => {
      const freed = await this.#remove(modelId, trigger)
      if (freed === undefined) { skipped.add(modelId); return }
      removed.push(modelId)
      freedBytes += freed
    }
    const failed = (what: string, err: unknown): void => {
      errors.push(`${what}: ${messageOf(err)}`)
      log.warn({ err, what }, 'the purge left something')
    }
    const copies = await this.#ours(wanted).catch((err: unknown) => { failed(root.root, err); return [] })
    for (const { modelId } of copies) {
      await one(modelId).catch((err: unknown) => { failed(modelId, err) })
    }
    freedBytes += await this.#purgePending(wanted, removed).catch((err: unknown) => {
      failed(root.root, err)
      return 0
    })
    // A first transfer has no copy yet that could be skipped.
    for (const modelId of active()) {
      if ((wanted ?? modelId) === modelId && !removed.includes(modelId)) skipped.add(modelId)
    }
    const error = errors.length === 0 ? null : errors.join('; ')
    return { removed: removed.sort(), skippedInUse: [...skipped].sort(), freedBytes, error }
  }

  async #preview (wanted: string | undefined): Promise<PurgePreview> {
    const { root, active, settings: { cleanupOnDeactivate, keepRecentBytes } } = this.#options
    const all = await this.#copies()
    const moving = new Set(active())
    const left = (await root.pending(wanted)).filter(({ modelId }) => !moving.has(modelId))
    // No await from here on: what is in use is that of one moment.
    const safe = this.#safe()
    const idle = all.filter(({ modelId }) => !safe.has(modelId))
    const going = new Set(cleanupOnDeactivate ? planRecency({ idle, budgetBytes: keepRecentBytes }) : [])
    const ours = all.filter(({ modelId }) => (wanted ?? modelId) === modelId)
    const free = ours.filter(({ modelId }) => !safe.has(modelId))
    const skipped = [...ours.map(({ modelId }) => modelId), ...moving].filter((modelId) =>
      safe.has(modelId) && (wanted ?? modelId) === modelId)
    return {
      removed: [...new Set([...free, ...left].map(({ modelId }) => modelId))].sort(),
      skippedInUse: [...new Set(skipped)].sort(),
      freedBytes: free.reduce((sum, { freeableBytes }) => sum + freeableBytes, 0) +
        left.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      error: null,
      copies: ours.sort(newestFirst).reverse().map(({ modelId, sizeBytes, freeableBytes, lastUsedMs }) => ({
        modelId, sizeBytes, freeableBytes, lastUsedMs,
        inUse: safe.has(modelId), overBudget: going.has(modelId)
      }))
    }
  }

  /** Removes what broken off transfers left; resolves with its bytes. */
  async #purgePending (wanted: string | undefined, removed: string[]): Promise<number> {
    const { root, active } = this.#options
    let freedBytes = 0
    for (const { modelId, sizeBytes } of await root.pending(wanted)) {
      // Asked anew for each: a transfer may have begun since the folder was listed.
      if ([...active()].includes(modelId)) continue
      await root.discard(modelId)
      freedBytes += sizeBytes
      if (!removed.includes(modelId)) removed.push(modelId)
    }
    return freedBytes
  }

  /** Like `#remove`, for the passes: what cannot be removed is logged and left. */
  async #evict (modelId: string, trigger: Trigger, keep?: string): Promise<number | undefined> {
    return await this.#remove(modelId, trigger, keep).catch((err: unknown) => {
      this.#options.log.warn({ err, modelId, trigger }, 'an idle copy could not be removed')
      return undefined
    })
  }

  /** Removes a copy unless it is needed by now: undefined then, else the bytes that came free. */
  async #remove (modelId: string, trigger: Trigger, keep?: string): Promise<number | undefined> {
    const { root, uses, companionsOf, onEvicted, log } = this.#options
    // No await from here to `going`: a use comes before, and is seen, or after, and is refused.
    if (this.#removing.has(modelId) || this.#safe(keep).has(modelId)) return undefined
    this.#removing.add(modelId)
    const back = uses.going(modelId, (used) => inUseClosure([used], companionsOf).has(modelId))
    try {
      const freedBytes = await root.remove(modelId)
      log.info({ modelId, freedBytes, trigger }, 'removed an idle copy')
      onEvicted({ modelId, freedBytes, trigger })
      return freedBytes
    } finally {
      this.#removing.delete(modelId)
      back()
    }
  }

  /** What no pass may touch now. */
  #safe (keep?: string): Set<string> {
    const { uses, active, companionsOf } = this.#options
    return inUseClosure([...uses.ids(), ...active(), ...keep === undefined ? [] : [keep]], companionsOf)
  }

  /** The copies svc wrote: folders of others with a model's name are none of its business. */
  async #ours (modelId?: string): Promise<Copy[]> {
    const { root } = this.#options
    const copies = modelId === undefined ? await root.list()
      : modelIdProblem(modelId) === null ? [await root.read(modelId)] : []
    return copies.filter((copy) => copy?.ours === true) as Copy[]
  }

  /** The copies, none used later than now. */
  async #copies (): Promise<Copy[]> {
    const { clock } = this.#options
    const copies = await this.#ours()
    return copies.map((copy) => ({ ...copy, lastUsedMs: Math.min(copy.lastUsedMs, clock.now()) }))
  }

  async #touch (used: readonly string[]): Promise<void> {
    const all = inUseClosure(used, this.#options.companionsOf)
    await Promise.all([...all].map(async (modelId) => { await this.#touchOne(modelId) }))
  }

  /** A use that cannot be written down costs at most the order of eviction. */
  async #touchOne (modelId: string): Promise<void> {
    const { root, clock, log } = this.#options
    await root.touch(modelId, clock.now()).catch((err: unknown) => {
      log.warn({ err, modelId }, 'the last use of a copy could not be written down')
    })
  }
}
