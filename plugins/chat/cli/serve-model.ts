import { statSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { editDistance } from '../../../kernel/index.js'
import { isVerbError, modelInPath, verbModule } from '../../../kernel/cli/index.js'
import { modelFetcher, readModelOrPath } from '../../staging/service.js'
import type { WaitClock, VerbContext, VerbError } from '../../../kernel/cli/index.js'
import type { PlaceModule } from '../../placement/service.js'
import type { NamedModel } from '../../staging/service.js'

interface Known { card: { quantization: string | null, files: { path: string, bytes: number }[] } }

/** Whether the error means that the model exists but does not support the requested task. */
export const isOfAnotherTask = (error: unknown): boolean =>
  isVerbError(error) && error.api?.reason === 'wrong_task'

/** Whether the error means that the model is missing or not ready. */
export const isAbsent = (error: unknown): error is VerbError =>
  isVerbError(error) && error.api?.reason === 'no_instance'

/** Maximum edit distance between an unknown model name and the name to suggest. */
const MISTYPED = 2

/** Parses a model name. Throws VerbError (2), with a similar name if there is one. */
export async function namedModel (ctx: VerbContext, word: string): Promise<NamedModel> {
  try {
    return readModelOrPath(ctx, word)
  } catch (error) {
    throw isVerbError(error) ? ctx.fail(2, error.message + await suggestion(ctx, word)) : error
  }
}

/** `; did you mean acme/chat?` if a known model has a similar name with the same numbers. */
async function suggestion ({ client }: VerbContext, word: string): Promise<string> {
  const { data } = await client.json<{ data: { id: string }[] }>('/v1/models').catch(() => ({ data: [] }))
  const digits = (name: string): string => name.replace(/\D+/g, ' ').trim()
  const near = data.find(({ id }) => [id, id.replace(/^.*\//, '')].some((name) =>
    digits(name) === digits(word) && editDistance(name.toLowerCase(), word.toLowerCase()) <= MISTYPED))
  return near === undefined ? '' : `; did you mean ${near.id}?`
}

/** Whether the model accepts requests; true if the list is not available. */
export async function isReady ({ client }: VerbContext, { modelId }: NamedModel): Promise<boolean> {
  const { data } = await client.json<{ data: { id: string, ready: boolean }[] }>('/v1/models')
    .catch(() => ({ data: [{ id: modelId, ready: true }] }))
  return data.some(({ id, ready }) => id === modelId && ready)
}

/**
 * Throws VerbError (1) if the cluster has the model with weights other than those requested, since a pull
 * would replace them for all users.
 */
export async function checkWeights (ctx: VerbContext, named: NamedModel): Promise<void> {
  const { modelId, variant, source = '' } = named
  const file = source.startsWith('file:') ? fileURLToPath(source) : undefined
  const known = variant === undefined && file === undefined ? undefined : await fetchCard(ctx, named)
  if (known === undefined) return
  if (file !== undefined) {
    checkFile(ctx, file, modelId, known)
    return
  }
  const wanted = variant!.toLowerCase()
  const { quantization, files } = known.card
  const here = quantization ?? 'fp32'
  if (here.toLowerCase() === wanted || files.some(({ path }) => path.toLowerCase().includes(wanted))) return
  throw ctx.fail(1, `${modelId} is here as ${here}: run it without :${variant!}, or replace its ` +
    `weights with svc pull ${modelId}:${variant!}`)
}

/** Throws VerbError (1) if the model of that name in the cluster has no such file of that size. */
function checkFile (ctx: VerbContext, file: string, modelId: string, { card: { files } }: Known): void {
  const stats = statSync(file)
  const same = files.some(({ path, bytes }) => basename(path) === basename(file) && bytes === stats.size)
  if (stats.isDirectory() || files.length === 0 || same) return
  throw ctx.fail(1, `${modelId} is here with other weights than ${file}: replace them with ` +
    `svc pull ${file}, or keep both: add --as ORG/NAME`)
}

/**
 * Makes a model ready: downloads it if it is unknown, places it, and waits. Resolves to false if the caller
 * may not read its card. Throws VerbError.
 */
export async function serveModel (
  ctx: VerbContext, pace: WaitClock, named: NamedModel, yes: boolean
): Promise<boolean> {
  const { modelId } = named
  const known = await fetchCard(ctx, named).catch(() => null)
  if (known === null) return false
  if (known === undefined) {
    const near = named.source === undefined ? await suggestion(ctx, modelId) : ''
    if (near !== '') {
      throw ctx.fail(3, `there is no model ${modelId} here${near}\n  from the hub: svc pull ${modelId}`)
    }
    const fetchModel = await modelFetcher()
    await fetchModel(ctx, pace, named, yes)
  }
  const { makeReady } = await verbModule(ctx, 'place') as PlaceModule
  await makeReady(ctx, pace, modelId, ctx.wait === undefined ? Infinity : ctx.wait * 1000, yes)
  return true
}

/** The model's card; undefined if the model is unknown. Throws VerbError. */
async function fetchCard ({ client }: VerbContext, { modelId }: NamedModel): Promise<Known | undefined> {
  try {
    return await client.json<Known>(`/models/${modelInPath(modelId)}/card`)
  } catch (error) {
    if (isVerbError(error) && error.api?.reason === 'model_not_found') return undefined
    throw error
  }
}
