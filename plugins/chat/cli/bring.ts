import { editDistance, isVerbError, modelInPath, nearest } from '../../../kernel/cli/index.js'
import { modelStarter } from '../../placement/service.js'
import { modelFetcher, readNamedModel } from '../../staging/service.js'
import type { Pace, VerbContext, VerbError } from '../../../kernel/cli/index.js'
import type { NamedModel } from '../../staging/service.js'

/** What is known of a model here. */
interface Known { card: { quantization: string | null, files: { path: string }[] } }

/** Whether an answer says that the model is there, and does something else than it was asked for. */
export const isOfAnotherTask = (error: unknown): boolean => isVerbError(error) &&
  error.api?.reason === 'no_instance' && error.api.details?.['brokenLink'] === 'request'

/** Whether an answer says that the model is not there, or not ready. */
export const isAbsent = (error: unknown): error is VerbError =>
  isVerbError(error) && error.api?.reason === 'no_instance' && !isOfAnotherTask(error)

/** The model that a word names. Throws VerbError (2), which has the name of a model here that is alike. */
export async function namedModel (ctx: VerbContext, word: string): Promise<NamedModel> {
  try {
    return readNamedModel(ctx, word)
  } catch (error) {
    const ids = await listed(ctx)
    const near = nearest(word, ids.flatMap((id) => [id, nameIn(id)]))
    const meant = ids.find((id) => id === near || nameIn(id) === near)
    if (meant === undefined || !isVerbError(error)) throw error
    throw ctx.fail(error.exitCode, `${error.message}; did you mean ${meant}?`)
  }
}

const nameIn = (id: string): string => id.slice(id.indexOf('/') + 1)

/** The models of which the node knows. */
async function listed ({ client }: VerbContext): Promise<string[]> {
  const { data } = await client.json<{ data: { id: string }[] }>('/v1/models').catch(() => ({ data: [] }))
  return data.map(({ id }) => id)
}

/** Letters that a mistyped name may have wrong. Numbers tell models apart: they are no mistake. */
const MISTYPED = 2

/** Throws VerbError (3) where a model here has almost that name: the hub may have a stranger's of it. */
async function refuseMistyped (ctx: VerbContext, { modelId, source }: NamedModel): Promise<void> {
  const digits = (id: string): string => id.replace(/\D+/g, ' ').trim()
  const meant = source !== undefined ? undefined : (await listed(ctx)).find((id) =>
    digits(id) === digits(modelId) && editDistance(id.toLowerCase(), modelId.toLowerCase()) <= MISTYPED)
  if (meant === undefined) return
  throw ctx.fail(3, `no model is called ${modelId} here; did you mean ${meant}?\n` +
    `  the hub's of that name: svc pull ${modelId}`)
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
export async function bring (
  ctx: VerbContext, pace: Pace, named: NamedModel, yes: boolean
): Promise<boolean> {
  const { modelId } = named
  const known = await lookUp(ctx, named).catch(() => null)
  if (known === null) return false
  if (known === undefined) {
    await refuseMistyped(ctx, named)
    const fetchModel = await modelFetcher()
    await fetchModel(ctx, pace, named, yes)
  }
  const makeReady = await modelStarter()
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
