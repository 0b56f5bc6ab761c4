import { canAsk, confirm, isModelId, isVerbError, plain, realPace } from '../../../kernel/cli/index.js'
import { count, waitUntilZero } from './state.js'
import type { SeenState } from './state.js'
import { rowsOf } from './ps.js'
import type { PsRow } from './ps.js'
import type { WaitClock, Verb, VerbContext, VerbError } from '../../../kernel/cli/index.js'

interface Outcome { instanceId: string, modelId: string, message: string | null, failure: VerbError | null }

export function createStop (pace: WaitClock): Verb {
  return {
    async run (ctx, [word], options) {
      const rows = meant(ctx, rowsOf(await ctx.client.json<SeenState>('/state')), word!)
      if (rows.length > 1 && options['yes'] !== true && canAsk(ctx) && !await agreed(ctx, rows)) {
        ctx.err.line('nothing was stopped')
        return 1
      }
      return await stopAll(ctx, pace, rows, options['now'] === true)
    }
  }
}

export default createStop(realPace)

async function stopAll (
  ctx: VerbContext, pace: WaitClock, rows: readonly PsRow[], now: boolean
): Promise<number | undefined> {
  const all: Outcome[] = []
  for (const row of rows) all.push(await stop(ctx, row, now))
  const failures = all.flatMap(({ failure }) => failure ?? [])
  const waits = failures.length === 0 && ctx.wait !== undefined
  const there = ({ instances }: SeenState): number =>
    all.filter(({ instanceId }) => Object.hasOwn(instances, instanceId)).length
  const left = waits ? await waitUntilZero(ctx, pace, there, 'it is still stopping; see svc ps') : 0
  if (!ctx.out.json) say(ctx, all, waits)
  else {
    ctx.out.value({ instances: all.map(({ instanceId, modelId, message, failure }) =>
      ({ instanceId, modelId, stopped: failure === null, message, error: failure?.message ?? null })) })
  }
  if (left > 0) {
    ctx.err.line(`the wait timed out: ${count(left, 'instance')} with open requests left; see svc ps`)
    return 4
  }
  if (failures.length === 0) return undefined
  if (rows.length === 1) throw failures[0]!
  throw ctx.fail(failures[0]!.exitCode,
    `${failures.length} of ${count(rows.length, 'instance')} could not be stopped`)
}

/** The instances of the model `word`, or the one with this id prefix. Throws VerbError (exit code 3 or 2). */
function meant (ctx: VerbContext, rows: readonly PsRow[], word: string): PsRow[] {
  const found = isModelId(word)
    ? rows.filter(({ modelId }) => modelId === word)
    : rows.filter(({ instanceId }) => word !== '' && instanceId.startsWith(word.toLowerCase()))
  if (found.length === 0) {
    throw ctx.fail(3, `no instance matches "${word.slice(0, 200)}"; svc ps lists the instances`)
  }
  if (!isModelId(word) && found.length > 1) {
    throw ctx.fail(2, `"${word}" matches ${found.length} instance ids: ${
      found.map(({ instanceId }) => instanceId).join(', ')}`)
  }
  return found
}

/** Lists the instances and asks for confirmation; end of input means no. Throws VerbError (130) at Ctrl-C. */
async function agreed (ctx: VerbContext, rows: readonly PsRow[]): Promise<boolean> {
  const { err } = ctx
  for (const { instanceId, modelId, nodes } of rows) {
    err.line(plain(`${instanceId}  ${modelId}  ${nodes.map(({ name }) => name).join(',')}`))
  }
  return await confirm(ctx, `Stop ${count(rows.length, 'instance')}?`)
}

/** Seconds that open requests may continue without `--now`. */
const DRAIN_SECONDS = 30

async function stop (ctx: VerbContext, { instanceId, modelId }: PsRow, now: boolean): Promise<Outcome> {
  const path = `/instance/${encodeURIComponent(instanceId)}?drain_seconds=${now ? 0 : DRAIN_SECONDS}`
  try {
    const { message } = await ctx.client.json<{ message: string }>(path, { method: 'DELETE' })
    return { instanceId, modelId, message, failure: null }
  } catch (error) {
    if (ctx.signal.aborted || !isVerbError(error)) throw error
    // Another client has already stopped the instance, which is not a failure.
    const failure = error.api?.reason === 'instance_not_found' ? null : error
    return { instanceId, modelId, message: null, failure }
  }
}

/** Reports the outcomes. If `gone`, the instances are removed, so omit "is being stopped" messages. */
function say ({ out, err }: VerbContext, all: readonly Outcome[], gone: boolean): void {
  const done = all.filter(({ failure }) => failure === null)
  const models = [...new Set(done.map(({ modelId }) => modelId))].join(', ')
  if (done.length > 0) out.line(plain(`stopped ${count(done.length, 'instance')} of ${models}`))
  if (!gone) for (const { message } of done) if (message !== null) err.line(plain(message))
  if (all.length === 1) return
  for (const { instanceId, failure } of all) {
    if (failure !== null) err.line(plain(`${instanceId}: ${failure.message}`))
  }
}
