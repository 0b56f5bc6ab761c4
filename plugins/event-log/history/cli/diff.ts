import { systemClock } from '../../../../kernel/index.js'
import { MOMENTS, readMoment } from '../../../../kernel/cli/index.js'
import { differences } from '../differences.js'
import { partOf } from '../part.js'
import type { Verb, VerbContext } from '../../../../kernel/cli/index.js'
import type { Difference, Side } from '../differences.js'
import type { StateAt } from '../lookup.js'

/** What was read of a moment; null for now, which is not recorded. */
interface Shown {
  readonly at: string
  readonly recorded: StateAt['snapshot'] | null
  /** Session, nodes and instances are those after this event. */
  readonly idx: number | null
}

export default {
  async run (ctx, args) {
    const [from, to] = args as [string, string | undefined]
    const a = await read(ctx, from)
    const b = to === undefined || to === 'now' ? await readNow(ctx) : await read(ctx, to)
    const changes = differences(a.side, b.side)
    if (ctx.out.json) ctx.out.value({ from: a.shown, to: b.shown, changes })
    else print(ctx, a.shown, b.shown, changes)
  }
} satisfies Verb

async function read (ctx: VerbContext, text: string): Promise<{ side: Side, shown: Shown }> {
  const at = readMoment(text, systemClock.now())
  if (at === null) throw ctx.fail(2, `${text}: ${MOMENTS}`)
  const then = await ctx.client.json<StateAt>(`/state?at=${encodeURIComponent(at)}`)
  const { idx, ...part } = then.derived
  return {
    side: { part, state: then.state },
    shown: { at: String(then.at), recorded: then.snapshot, idx }
  }
}

/**
 * The node that is asked may have no link to one that is there: members are those after the newest event.
 * Whether there is a master only /state tells.
 */
async function readNow ({ client }: VerbContext): Promise<{ side: Side, shown: Shown }> {
  const state = await client.json<Record<string, unknown>>('/state')
  const { derived } = await client.json<StateAt>(`/state?at=${Number(state['lastEventAppliedIdx'])}`)
  const part = { ...partOf(state), members: derived.members }
  return { side: { part, state }, shown: { at: 'now', recorded: null, idx: null } }
}

function print ({ out, err }: VerbContext, from: Shown, to: Shown, changes: readonly Difference[]): void {
  for (const { text } of changes) out.line(text)
  if (changes.length === 0) err.line('nothing differs')
  for (const { at, recorded, idx } of [from, to]) {
    if (recorded === null) continue
    err.line(`${at}: runners and conflicts as recorded at ${recorded.at}; session, nodes and instances at ` +
      `index ${idx}`)
  }
}
