import type { Context, Section } from '../../kernel/index.js'
import type { PlacementIntent } from '../runners/service.js'
import type { Standing } from './desk.js'
import type { manifest } from './manifest.js'
import type { StoppedEntry, WaitingEntry } from './sections.js'

/** The sections by the types of this plugin, which their schemas stand for. */
export interface StandingSections { waiting: Section<WaitingEntry>, stopped: Section<StoppedEntry> }

export function sectionsOf (ctx: Context<typeof manifest>): StandingSections {
  return {
    waiting: ctx.sections.waiting as unknown as Section<WaitingEntry>,
    stopped: ctx.sections.stopped
  }
}

/** What operators may say about what is to be there; on any node. */
export function createStanding (
  ctx: Pick<Context<typeof manifest>, 'clock' | 'command'>, { waiting, stopped }: StandingSections
): Standing {
  return {
    waits: (instanceId) => waiting.get(instanceId),
    isStopped: (modelId) => stopped.get(modelId) !== undefined,
    async unwait (instanceId, commandId) {
      await ctx.command('unwait', { id: instanceId }, commandId)
    },
    async stop (modelId) {
      await ctx.command('stop', { modelId, since: new Date(ctx.clock.now()).toISOString() })
    },
    async unstop (modelId) { await ctx.command('unstop', { modelId }) }
  }
}

/** An instance that waits for a place, as /state shows it. */
export interface WaitingInstance extends WaitingEntry {
  instanceId: string
  origin: PlacementIntent['origin']
}

/** The state view: id to what waits under it. */
export function waitingView ({ waiting }: StandingSections): Record<string, WaitingInstance> {
  return Object.fromEntries([...waiting.entries()].map(({ key, value }) =>
    [key, { instanceId: key, origin: value.intent.origin, ...value }]))
}
