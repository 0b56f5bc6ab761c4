import { canAsk, confirm, plain } from '../../../kernel/index.js'
import { count, isModelId, isVerbError } from './api.js'
import type { SeenState, VerbError } from './api.js'
import { rowsOf } from './ps.js'
import type { PsRow } from './ps.js'
import type { Verb, VerbContext } from '../../../kernel/index.js'

/** What came of one instance. */
interface Stopped { instanceId: string, modelId: string, stopped: boolean, error: string | null }

export default {
  async run (ctx, [word], options) {
    const rows = meant(ctx, rowsOf(await ctx.client.json<SeenState>('/state')), word!)
    if (rows.length > 1 && options['yes'] !== true && canAsk(ctx) && !await agreed(ctx, rows)) {
      ctx.err.line('nothing was stopped')
      return 1
    }
    const failures: VerbError[] = []
    const instances: Stopped[] = []
    for (const { instanceId, modelId } of rows) {
      const failure = await stop(ctx, instanceId)
      instances.push({ instanceId, modelId, stopped: failure === null, error: failure?.message ?? null })
      if (failure !== null) failures.push(failure)
    }
    if (ctx.out.json) ctx.out.value({ instances })
    else say(ctx, instances)
    if (failures.length === 0) return
    if (rows.length === 1) throw failures[0]!
    throw ctx.fail(failures[0]!.exitCode,
      `${failures.length} of ${count(rows.length, 'instance')} could not be stopped`)
  }
} satisfies Verb

/** The instances that a word means: one by its id or the beginning of it, or all of a model. */
function meant (ctx: VerbContext, rows: readonly PsRow[], word: string): PsRow[] {
  const found = isModelId(word)
    ? rows.filter(({ modelId }) => modelId === word)
    : rows.filter(({ instanceId }) => word !== '' && instanceId.startsWith(word.toLowerCase()))
  if (found.length === 0) {
    throw ctx.fail(3, `no instance is called "${word.slice(0, 200)}"; svc ps shows what there is`)
  }
  if (!isModelId(word) && found.length > 1) {
    throw ctx.fail(2, `"${word}" begins ${found.length} instance ids: ${
      found.map(({ instanceId }) => instanceId).join(', ')}`)
  }
  return found
}

/** True when somebody can be asked. */
/** Shows what would be stopped, and asks; the end of the input is a no. Throws VerbError (130) at Ctrl-C. */
async function agreed (ctx: VerbContext, rows: readonly PsRow[]): Promise<boolean> {
  const { err } = ctx
  for (const { instanceId, modelId, nodes } of rows) {
    err.line(plain(`${instanceId}  ${modelId}  ${nodes.map(({ name }) => name).join(',')}`))
  }
  return await confirm(ctx, `Stop ${count(rows.length, 'instance')}?`)
}

/** Null when it is gone, else why not. Throws VerbError (130) at Ctrl-C. */
async function stop (ctx: VerbContext, instanceId: string): Promise<VerbError | null> {
  try {
    await ctx.client.json(`/instance/${encodeURIComponent(instanceId)}`, { method: 'DELETE' })
    return null
  } catch (error) {
    if (ctx.signal.aborted || !isVerbError(error)) throw error
    // Somebody else stopped it meanwhile.
    return error.api?.reason === 'instance_not_found' ? null : error
  }
}

function say ({ out, err }: VerbContext, instances: readonly Stopped[]): void {
  const done = instances.filter(({ stopped }) => stopped)
  const models = [...new Set(done.map(({ modelId }) => modelId))].join(', ')
  if (done.length > 0) out.line(plain(`stopped ${count(done.length, 'instance')} of ${models}`))
  if (instances.length === 1) return
  for (const { instanceId, error } of instances) {
    if (error !== null) err.line(plain(`${instanceId}: ${error}`))
  }
}
