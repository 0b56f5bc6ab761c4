import { createHash, randomUUID } from 'node:crypto'
import type { Context } from '../../../kernel/index.js'
import type { manifest } from '../manifest.js'
import type { FactsReader } from '../facts.js'
import type { Planning } from '../place/planning.js'
import type { WaitSections } from '../waitlist.js'
import { Keeper, LOOK_EVERY_MS } from './loop.js'
import type { KeeperParts } from './loop.js'

/** What the keeper needs of the plugin. */
export interface KeepingParts {
  planning: Planning
  facts: FactsReader
  sections: WaitSections
  /** Models the cluster places by itself. */
  autoplace (): readonly string[]
}

/** Events after which something may have to be done. */
const SIGNS = ['InstanceCreated', 'InstanceDeleted', 'InstanceFailureRecorded', 'RunnerStatusUpdated']

/** Has the master keep in place what was placed, from now until the plugin stops. */
export function startKeeper (
  ctx: Context<typeof manifest>, { planning, facts, sections, autoplace }: KeepingParts
): void {
  const { session, cluster, instances, state } = ctx.deps
  const keeper = new Keeper({
    clock: ctx.clock, log: ctx.log, session, cluster, facts, planning, instances, ...sections, autoplace,
    newId: randomUUID,
    ...entryCommands(ctx.command)
  })
  const poke = (): void => { keeper.poke() }
  ctx.effect('keeper', () => { keeper.close() })
  ctx.effect('new session', session.onChange(() => { keeper.sessionChanged() }))
  ctx.effect('nodes that come and go', cluster.onPeers(poke))
  sections.waiting.observe(poke)
  for (const kind of SIGNS) ctx.on(kind, poke)
  ctx.effect('changes of what is placed', state.onChange(() => { keeper.stateChanged() }))
  ctx.every('look at what is placed', LOOK_EVERY_MS, () => { keeper.tick() })
  keeper.sessionChanged()
}

/**
 * How entries come and go. A `wait` of a master that stops may be repeated to the next one after that has
 * placed what waited, and enters it again: it is ended again then, which under the id of the first time would
 * do nothing.
 */
export function entryCommands (
  command: Context<typeof manifest>['command']
): Pick<KeeperParts, 'wait' | 'note' | 'unwait'> {
  return {
    wait: async (id, entry) => await command('wait', { id, entry: entry }, onceFor('wait', id)),
    note: async (id, reason, message) => await command('note', { id, reason, message }),
    unwait: async (id) => await command('unwait', { id })
  }
}

/** The id of a command that is given once for an entry, by whichever master: a repeated one is the same. */
export function onceFor (what: string, id: string): string {
  const hex = createHash('sha256').update(`placement ${what} ${id}`).digest('hex')
  const variant = ((parseInt(hex[16]!, 16) & 3) | 8).toString(16)
  return [
    hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32)
  ].join('-')
}
