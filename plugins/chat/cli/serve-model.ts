import { editDistance } from '../../../kernel/index.js'
import { isVerbError, modelInPath, verbModule } from '../../../kernel/cli/index.js'
import { modelFetcher, readNamedModel } from '../../staging/service.js'
import type { WaitClock, VerbContext, VerbError } from '../../../kernel/cli/index.js'
import type { PlaceModule } from '../../placement/service.js'
import type { NamedModel } from '../../staging/service.js'

/** What is known of a model here. */
interface Known { card: { quantization: string | null, files: { path: string }[] } }

/** Whether an answer says that the model is there, and does something else than it was asked for. */
export const isOfAnotherTask = (error: unknown): boolean => isVerbError(error) &&
  error.api?.reason === 'no_instance' && error.api.details?.['brokenLink'] === 'request'

/** Whether an answer says that the model is not there, or not ready. */
export const isAbsent = (error: unknown): error is VerbError =>
  isVerbError(error) && error.api?.reason === 'no_instance' && !isOfAnotherTask(error)

/** Letters that a mistyped name may have wrong. */
const MISTYPED = 2

/** Reads the name of a model. Throws VerbError (2) with a similar name of a model here. */
export async function namedModel (ctx: VerbContext, word: string): Promise<NamedModel> {
  try {
    return readNamedModel(ctx, word)
  } catch (error) {
    throw isVerbError(error) ? ctx.fail(2, error.message + await meant(ctx, word)) : error
  }
}

/** `; did you mean acme/chat?` if a model here has almost that name, with the same numbers. */
async function meant ({ client }: VerbContext, word: string): Promise<string> {
  const { data } = await client.json<{ data: { id: string }[] }>('/v1/models').catch(() => ({ data: [] }))
  const digits = (name: string): string => name.replace(/\D+/g, ' ').trim()
  const near = data.find(({ id }) => [id, id.replace(/^.*\//, '')].some((name) =>
    digits(name) === digits(word) && editDistance(name.toLowerCase(), word.toLowerCase()) <= MISTYPED))
  return near === undefined ? '' : `; did you mean ${near.id}?`
}

/** Whether the model takes requests already; true also where that cannot be asked. */
export async function isReady ({ client }: VerbContext, { modelId }: NamedModel): Promise<boolean> {
  const { data } = await client.json<{ data: { id: string, ready: boolean }[] }>('/v1/models')
    .catch(() => ({ data: [{ id: modelId, ready: true }] }))
  return data.some(({ id, ready }) => id === modelId && ready)
}

/**
 * Throws VerbError (1) where the model is here with other weights than are asked for: they would be replaced
 * for everybody.
 */
export async function checkWeights (ctx: VerbContext, named: NamedModel): Promise<void> {
  const { modelId, variant } = named
  const known = variant === undefined ? undefined : await lookUp(ctx, named)
  if (known === undefined) return
  const wanted = variant!.toLowerCase()
  const { quantization, files } = known.card
  const here = quantization ?? 'fp32'
  if (here.toLowerCase() === wanted || files.some(({ path }) => path.toLowerCase().includes(wanted))) return
  throw ctx.fail(1, `${modelId} is here as ${here}: ask it without :${variant!}, or put the other weights ` +
    `in its place with svc pull ${modelId}:${variant!}`)
}

/**
 * Has a model served that is not: brings it into the store where it is not known, places it, and waits until
 * it is ready. False where the caller may not even look. Throws VerbError.
 */
export async function serveModel (
  ctx: VerbContext, pace: WaitClock, named: NamedModel, yes: boolean
): Promise<boolean> {
  const { modelId } = named
  const known = await lookUp(ctx, named).catch(() => null)
  if (known === null) return false
  if (known === undefined) {
    const near = named.source === undefined ? await meant(ctx, modelId) : ''
    if (near !== '') {
      throw ctx.fail(3, `no model is called ${modelId} here${near}\n  the hub's: svc pull ${modelId}`)
    }
    const fetchModel = await modelFetcher()
    await fetchModel(ctx, pace, named, yes)
  }
  const { makeReady } = await verbModule(ctx, 'place') as PlaceModule
  await makeReady(ctx, pace, modelId, ctx.wait === undefined ? Infinity : ctx.wait * 1000, yes)
  return true
}

/** What is known of the model; undefined where nobody knows it. Throws VerbError. */
async function lookUp ({ client }: VerbContext, { modelId }: NamedModel): Promise<Known | undefined> {
  try {
    return await client.json<Known>(`/models/${modelInPath(modelId)}/card`)
  } catch (error) {
    if (isVerbError(error) && error.api?.reason === 'model_not_found') return undefined
    throw error
  }
}
