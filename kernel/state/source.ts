import { kernelError } from '../api/errors.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { StateHistoryService } from '../api/services.js'
import { createFacts } from './facts.js'
import { baseState, redact, withViews } from './state.js'
import type { Assembly } from '../plugins/assembly.js'
import type { Caller, Manifest } from '../api/plugin.js'
import type { StateHistory, StateReader } from '../api/services.js'
import type { PluginSet } from '../plugins/plugin-set.js'
import type { HiddenFields, NodeFacts } from './state.js'

/** Milliseconds between checks for changes to publish. */
const PUBLISH_MS = 2000
/** Milliseconds from the first change in a burst until it is published; busy runners cause such bursts. */
const PUBLISH_SOON_MS = 20

/** Plugins see the state including addresses. */
const PLUGINS: Caller = { id: 'node', mode: 'direct', authorities: new Set(['read', 'operator']) }

export interface StateSource {
  /** The state as this caller may see it. */
  now (caller: Caller): Promise<Record<string, unknown>>
  /** Like `now`, but synchronous, with this machine's latest readings. */
  known (caller: Caller): Record<string, unknown>
  /**
   * An earlier state as this caller may see it; only operators see its events, as in GET /events. Throws
   * `plugin_disabled` if no plugin keeps a history, and the history's errors.
   */
  at (moment: string, caller: Caller): Promise<unknown>
  /** The state as plugins see it. */
  readonly reader: StateReader
  /** Publishes this node's state after each change and periodically; returns a function that stops it. */
  publish (): () => void
}

/** Builds the state from the kernel's parts; plugins can add views later. */
export function createStateSource (kernel: Assembly): StateSource {
  const { options, changes, bus, log, views } = kernel
  const { cluster } = options
  const facts = createFacts(kernel)
  const hidden = hiddenOf(kernel)
  const redacted = new WeakMap<object, unknown>()
  const seenBy = (caller: Caller, nodes: readonly NodeFacts[]): Record<string, unknown> => {
    const { quorum, stale } = cluster.status()
    const { session } = cluster
    const base = baseState({ session, quorum, stale, nodes, durableEvents: bus.durableCount })
    const state = withViews(base, views, caller, (key, err) => {
      log.error({ err, view: key }, 'a state view failed')
    })
    if (caller.authorities.has('operator')) return state
    return redact(state, hidden, redacted) as Record<string, unknown>
  }
  let reading: Promise<Record<string, unknown>> | undefined
  return {
    now: async (caller) => seenBy(caller, await facts.all()),
    known: (caller) => seenBy(caller, facts.known()),
    at: async (moment, caller) => await earlier(kernel, moment, caller),
    reader: {
      // Concurrent reads share one measurement.
      read: () => reading ??= facts.all().finally(() => { reading = undefined })
        .then((nodes) => seenBy(PLUGINS, nodes)),
      nodes: facts.known,
      onChange: changes.listen
    },
    publish: () => keepPublishing(kernel, async () => { await facts.publish() })
  }
}

/** Names from `list` of every manifest, even if its plugin is off: earlier states may still contain them. */
export function namedBy (
  { present: { on, off } }: Pick<Assembly, 'present'>, list: 'stateWhereabouts' | 'stateReadings'
): ReadonlySet<string> {
  return new Set(manifestsOf({ on, off }).flatMap((manifest) => manifest[list] ?? []))
}

function manifestsOf ({ on, off }: Pick<PluginSet, 'on' | 'off'>): Manifest[] {
  const plugged = [...on, ...off.map(({ plugin }) => plugin)].map(({ manifest }) => manifest)
  return [kernelManifest, ...plugged]
}

function hiddenOf (kernel: Pick<Assembly, 'present'>): HiddenFields {
  const conflicts = manifestsOf(kernel.present).map((manifest) => Object.entries(manifest.conflicts ?? {}))
  return {
    names: namedBy(kernel, 'stateWhereabouts'),
    meanings: new Map(conflicts.flat().map(([code, { meaning }]) => [code, meaning]))
  }
}

async function earlier (kernel: Assembly, moment: string, caller: Caller): Promise<unknown> {
  const { present, services } = kernel
  const history = services.get(StateHistoryService.id) as StateHistory | undefined
  if (history === undefined) {
    const keeper = present.off.find(({ plugin }) =>
      Object.values(plugin.manifest.provides ?? {}).some(({ id }) => id === StateHistoryService.id))
    const why = keeper?.message ?? 'No installed plugin records it.'
    throw kernelError('plugin_disabled', `This node does not record earlier states. ${why}`,
      keeper === undefined ? {} : { plugin: keeper.plugin.manifest.name })
  }
  const then = await history.at(moment)
  if (caller.authorities.has('operator')) return then
  return redact({ ...then, events: null }, hiddenOf(kernel))
}

function keepPublishing (kernel: Assembly, send: () => Promise<void>): () => void {
  const { options: { clock, cluster }, changes, log } = kernel
  const publish = (): void => {
    showProblems(kernel)
    send().catch((err: unknown) => { log.error({ err }, 'this node could not publish its state') })
  }
  let waiting: (() => void) | undefined
  const soon = (): void => {
    waiting ??= clock.after(PUBLISH_SOON_MS, () => {
      waiting = undefined
      publish()
    })
  }
  const stops = [
    clock.every(PUBLISH_MS, publish), changes.listen(soon), () => { waiting?.() },
    cluster.onChange(changes.notify)
  ]
  publish()
  return () => { for (const stop of stops) stop() }
}

function showProblems ({ options, health }: Assembly): void {
  for (const [code, observed] of Object.entries(options.cluster.problems())) {
    if (observed === null) health.clear(code)
    else health.raise(code, observed)
  }
}
