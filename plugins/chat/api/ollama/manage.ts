/** Ollama's routes that pull, create, copy and delete models. */
import { createHash } from 'node:crypto'
import { delay, errorBody, kernelError, toSvcError } from '../../../../kernel/index.js'
import { present } from '../../../runners/language/json.js'
import { invalidField } from '../errors.js'
import { ollamaFailure } from '../../../staging/service.js'
import { visionSupportOf } from '../request-to-task.js'
import { messagesOf } from './chat.js'
import { instancesOf, unloadModel } from './load.js'
import { canonical, parsePullSource, find, isDeleted, nameIn } from './names.js'
import { requestLocal, storePath } from './own.js'
import type { FromSchema, RouteRequest } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'
import type { DerivedModel } from '../derived-models.js'
import type { copyBody, createBody, deleteBody, pullBody } from './body.js'
import type { PullSource, NamedModelCard } from './names.js'

/** Milliseconds between two requests for the download status. */
const POLL_MS = 250
/** Milliseconds to wait until a downloaded model appears in the catalogue, or a deleted one is unloaded. */
const CATALOGUE_MS = 10_000

interface Progress { status: string, digest?: string, total?: number, completed?: number }

/**
 * Streams the progress as lines, or returns the last line if `stream` is false. A failure before the first
 * line is an ordinary error, a later one an error line.
 */
async function sendProgress (
  request: RouteRequest, stream: boolean | null | undefined, steps: AsyncGenerator<Progress>
): Promise<unknown> {
  let step = await steps.next()
  if (stream === false) {
    let last = step.value as Progress
    for await (const next of steps) last = next
    return last
  }
  const writer = request.open({ contentType: 'application/x-ndjson' })
  const line = async (value: object): Promise<void> => { await writer.write(`${JSON.stringify(value)}\n`) }
  try {
    for (; step.done !== true; step = await steps.next()) await line(step.value)
  } catch (error) {
    if (writer.closed) return
    await line(ollamaFailure(errorBody(toSvcError(error), request.requestId)))
  }
}

/** Downloads into the cluster's store. A client disconnect cancels the download. */
export async function ollamaPull (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof pullBody }>
): Promise<unknown> {
  const body = request.body as FromSchema<typeof pullBody>
  return await sendProgress(request, body.stream, pullSteps(parts, request, nameIn(body)))
}

async function * pullSteps (parts: ApiParts, request: RouteRequest, given: string): AsyncGenerator<Progress> {
  const name = canonical(parts, given)
  const ships = parts.models?.locate(name)?.kind === 'bundled'
  if (isDeleted(parts, name)) await parts.derivedModels.remove(name)
  if (ships || parts.models?.isVirtual(name) === true || parts.made?.(name) !== undefined) {
    yield { status: 'pulling manifest' }
    yield { status: 'success' }
    return
  }
  const wanted = parsePullSource(given)
  const { modelId, variant } = wanted
  await requestLocal(parts, request, {
    method: 'POST', path: storePath(modelId, '/download'), body: present({ variant })
  })
  yield { status: 'pulling manifest' }
  yield * downloadSteps(parts, request, wanted)
  yield { status: 'verifying sha256 digest' }
  const { clock, runners } = parts
  // The store announces the model asynchronously, so wait until the client can use it.
  for (const end = clock.mono() + CATALOGUE_MS; runners.card(modelId) === undefined && clock.mono() < end;) {
    await delay(clock, POLL_MS, request.signal)
  }
  yield { status: 'writing manifest' }
  yield { status: 'success' }
}

/** Response of GET …/download/status. */
interface Download {
  status: string, error: string | null, downloadedBytes: number, totalBytes: number, revision: string | null
}

async function * downloadSteps (
  parts: ApiParts, request: RouteRequest, { modelId, variant }: PullSource
): AsyncGenerator<Progress> {
  for (;;) {
    const download =
      await requestLocal<Download>(parts, request, { path: storePath(modelId, '/download/status') })
    const { status, error, downloadedBytes: completed, totalBytes: total, revision } = download
    if (total > 0) {
      // Clients expect a digest, but the content digest is unknown until the end: send a hash of the source.
      const id = createHash('sha256').update(JSON.stringify([modelId, variant, revision])).digest('hex')
      yield { status: `pulling ${id.slice(0, 12)}`, digest: `sha256:${id}`, total, completed }
    }
    if (status === 'complete') return
    if (status !== 'pending' && status !== 'downloading') {
      throw kernelError('provider_error', `${modelId}: ${error ?? `the download is ${status}`}`)
    }
    try {
      await delay(parts.clock, POLL_MS, request.signal)
    } catch (gone) {
      const { signal } = new AbortController()
      await requestLocal(parts, { caller: request.caller, signal }, {
        method: 'DELETE', path: storePath(modelId, '/download')
      })
      throw gone
    }
  }
}

/** Deletes a name, and the files once no name uses them. */
export async function ollamaDelete (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof deleteBody }>
): Promise<object> {
  const given = nameIn(request.body as FromSchema<typeof deleteBody>)
  const name = canonical(parts, given)
  const made = parts.made?.(name)
  const isMade = made !== undefined && !isDeleted(parts, name)
  const modelId = isMade ? made.from : find(parts, given).card.modelId
  const others = [...parts.derivedModels.all()].filter(({ key, value }) =>
    value.from === modelId && key !== name && !isDeleted(parts, key))
  if (isMade) {
    await parts.derivedModels.remove(name)
    if (others.length > 0 || !isDeleted(parts, modelId)) return {}
    await parts.derivedModels.remove(modelId)
    if (parts.runners.card(modelId) === undefined) return {}
  } else if (modelId !== name) {
    throw invalidField('model', `${name} is an alias in the settings (plugins.chat.model_aliases)`)
  } else if (others.length > 0) {
    await parts.derivedModels.put(modelId, { from: modelId, at: now(parts) })
    return {}
  }
  await deleteFiles(parts, request, modelId)
  return {}
}

/** Deletes a model from the store and unloads it, then removes the copies that it has used until then. */
async function deleteFiles (
  parts: ApiParts, request: Pick<RouteRequest, 'caller' | 'signal'>, modelId: string
): Promise<void> {
  await requestLocal(parts, request, { method: 'DELETE', path: storePath(modelId) })
  if (instancesOf(parts, modelId).length === 0) return
  await unloadModel(parts, request, modelId)
  interface Purged { nodes: { skippedInUse: string[] }[] }
  const purge = async (dryRun: boolean): Promise<Purged> => await requestLocal(parts, request,
    { method: 'POST', path: '/store/purge-staging', body: { modelId, dryRun } })
  const end = parts.clock.mono() + CATALOGUE_MS
  const isUsed = ({ nodes }: Purged): boolean => nodes.some(({ skippedInUse }) => skippedInUse.length > 0)
  while (isUsed(await purge(true)) && parts.clock.mono() < end) {
    await delay(parts.clock, POLL_MS, request.signal)
  }
  await purge(false)
}

export async function ollamaCopy (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof copyBody }>
): Promise<object> {
  const { source, destination } = request.body
  const found = find(parts, source)
  await saveDerivedModel(parts, 'destination', destination, { ...made(found), at: now(parts) })
  return {}
}

export async function ollamaCreate (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof createBody }>
): Promise<unknown> {
  const body = request.body as FromSchema<typeof createBody>
  return await sendProgress(request, body.stream, createSteps(parts, body, nameIn(body)))
}

async function * createSteps (
  parts: ApiParts, body: FromSchema<typeof createBody>, name: string
): AsyncGenerator<Progress> {
  const { from, system, parameters, messages, license } = body
  if (from == null || from === '') throw invalidField('from', 'is required: the base model')
  const base = find(parts, from)
  const vision = visionSupportOf(parts, base.card.modelId)
  const before = made(base)
  const derived = {
    ...before,
    at: now(parts),
    ...present({
      system: system === '' ? null : system,
      license: license == null ? null : [license].flat().join('\n'),
      messages: messages == null || messages.length === 0 ? null : messagesOf(messages, vision)
    }),
    ...parameters == null ? {} : { parameters: { ...before.parameters, ...present(parameters) } }
  }
  await saveDerivedModel(parts, 'model', name, derived as DerivedModel)
  yield { status: `using ${base.name}` }
  yield { status: 'writing manifest' }
  yield { status: 'success' }
}

/** The definition of a derived model; for other models, one that only names them as the base. */
const made = ({ card: { modelId }, made }: NamedModelCard): Omit<DerivedModel,
  'at'> => made ?? { from: modelId }

const now = ({ clock }: ApiParts): string => new Date(clock.now()).toISOString()

const NAME = /^[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}$/
/** Limits on the number of derived models and on the bytes of each, since every node holds all of them. */
const MOST = 256
const MOST_BYTES = 16 * 1024

async function saveDerivedModel (
  parts: ApiParts, field: string, given: string, value: DerivedModel
): Promise<void> {
  const name = given.replace(/:latest$/, '')
  if (!NAME.test(name)) {
    throw invalidField(field, 'must be letters, digits and . _ - / : and begin with a letter or digit')
  }
  if (parts.runners.card(name) !== undefined || Object.hasOwn(parts.aliases, name)) {
    throw invalidField(field, `${name} is the name of another model; choose another name`)
  }
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (bytes > MOST_BYTES) throw invalidField(field,
    `has ${bytes} bytes of text; at most ${MOST_BYTES} are allowed`)
  const others = [...parts.derivedModels.all()].filter(({ key }) => key !== name)
  if (others.length >= MOST) {
    throw invalidField(field, `exceeds the limit of ${MOST} derived models; delete one`)
  }
  await parts.derivedModels.put(name, value)
}

/** Clients check for this text to detect Ollama. */
export const RUNNING = 'Ollama is running'
