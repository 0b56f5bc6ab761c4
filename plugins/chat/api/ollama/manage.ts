/** Brings, makes and removes models for Ollama's clients. */
import { createHash } from 'node:crypto'
import { delay, errorBody, kernelError, toSvcError } from '../../../../kernel/index.js'
import { present } from '../../../runners/language/json.js'
import { invalidField } from '../errors.js'
import { ollamaFailure } from '../../../staging/service.js'
import { visionSupportOf } from '../request-to-task.js'
import { messagesOf } from './chat.js'
import { unloadModel } from './load.js'
import { canonical, fetched, find, nameIn } from './names.js'
import { requestLocal, storePath } from './own.js'
import type { FromSchema, RouteRequest } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'
import type { DerivedModel } from '../derived-models.js'
import type { copyBody, createBody, deleteBody, pullBody } from './body.js'
import type { PullSource, NamedModelCard } from './names.js'

/** How often a download is looked at, ms. */
const LOOK_MS = 250
/** Longest wait for the store to tell of a model that it has got, ms. */
const TOLD_MS = 10_000

/** One line of what goes on. */
interface Progress { status: string, digest?: string, total?: number, completed?: number }

/**
 * Answers with lines of what goes on, or with the last one where `stream` is false. What fails before the
 * first is an ordinary error, and a line after that.
 */
async function tell (
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

/** POST /ollama/api/pull: into the store of the cluster. A client that goes away ends the download. */
export async function ollamaPull (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof pullBody }>
): Promise<unknown> {
  const body = request.body as FromSchema<typeof pullBody>
  return await tell(request, body.stream, pulled(parts, request, nameIn(body)))
}

async function * pulled (parts: ApiParts, request: RouteRequest, given: string): AsyncGenerator<Progress> {
  const name = canonical(parts, given)
  const ships = parts.models?.locate(name)?.kind === 'bundled'
  if (ships || parts.models?.isVirtual(name) === true || parts.made?.(name) !== undefined) {
    yield { status: 'pulling manifest' }
    yield { status: 'success' }
    return
  }
  const wanted = fetched(given)
  const { modelId, variant } = wanted
  await requestLocal(parts, request, {
    method: 'POST', path: storePath(modelId, '/download'), body: present({ variant })
  })
  yield { status: 'pulling manifest' }
  yield * fetching(parts, request, wanted)
  yield { status: 'verifying sha256 digest' }
  const { clock, runners } = parts
  // The store tells of it to this node as to any other; what has been pulled is to be found at once.
  for (const end = clock.mono() + TOLD_MS; runners.card(modelId) === undefined && clock.mono() < end;) {
    await delay(clock, LOOK_MS, request.signal)
  }
  yield { status: 'writing manifest' }
  yield { status: 'success' }
}

/** A download into the store, as GET …/download/status tells of it. */
interface Download {
  status: string, error: string | null, downloadedBytes: number, totalBytes: number, revision: string | null
}

async function * fetching (
  parts: ApiParts, request: RouteRequest, { modelId, variant }: PullSource
): AsyncGenerator<Progress> {
  for (;;) {
    const download =
      await requestLocal<Download>(parts, request, { path: storePath(modelId, '/download/status') })
    const { status, error, downloadedBytes: completed, totalBytes: total, revision } = download
    if (total > 0) {
      // Names what is fetched: the digest of the content is known when all of it is here.
      const id = createHash('sha256').update(JSON.stringify([modelId, variant, revision])).digest('hex')
      yield { status: `pulling ${id.slice(0, 12)}`, digest: `sha256:${id}`, total, completed }
    }
    if (status === 'complete') return
    if (status !== 'pending' && status !== 'downloading') {
      throw kernelError('provider_error', `${modelId}: ${error ?? `the download is ${status}`}`)
    }
    try {
      await delay(parts.clock, LOOK_MS, request.signal)
    } catch (gone) {
      const { signal } = new AbortController()
      await requestLocal(parts, { caller: request.caller, signal }, {
        method: 'DELETE', path: storePath(modelId, '/download')
      })
      throw gone
    }
  }
}

/** DELETE /ollama/api/delete: of a model that was made, only what makes it; that which answers stays. */
export async function ollamaDelete (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof deleteBody }>
): Promise<object> {
  const given = nameIn(request.body as FromSchema<typeof deleteBody>)
  const name = canonical(parts, given)
  if (parts.made?.(name) !== undefined) {
    await parts.makes.remove(name)
    return {}
  }
  const { card: { modelId } } = find(parts, given)
  if (modelId !== name) {
    throw invalidField('model', `${name} is a name in the settings, plugins.chat.model_aliases`)
  }
  await requestLocal(parts, request, { method: 'DELETE', path: storePath(modelId) })
  await unloadModel(parts, request, modelId)
  return {}
}

/** POST /ollama/api/copy: another name for a model. */
export async function ollamaCopy (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof copyBody }>
): Promise<object> {
  const { source, destination } = request.body
  const found = find(parts, source)
  await keep(parts, 'destination', destination, { ...made(found), at: now(parts) })
  return {}
}

/** POST /ollama/api/create: a model of another one, with its own parameters, messages and system message. */
export async function ollamaCreate (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof createBody }>
): Promise<unknown> {
  const body = request.body as FromSchema<typeof createBody>
  return await tell(request, body.stream, created(parts, body, nameIn(body)))
}

async function * created (
  parts: ApiParts, body: FromSchema<typeof createBody>, name: string
): AsyncGenerator<Progress> {
  const { from, system, parameters, messages, license } = body
  if (from == null || from === '') throw invalidField('from', 'is required: the model that it is made of')
  const base = find(parts, from)
  const eyes = visionSupportOf(parts, base.card.modelId)
  const before = made(base)
  const made_ = {
    ...before,
    at: now(parts),
    ...present({
      system: system === '' ? null : system,
      license: license == null ? null : [license].flat().join('\n'),
      messages: messages == null || messages.length === 0 ? null : messagesOf(messages, eyes)
    }),
    ...parameters == null ? {} : { parameters: { ...before.parameters, ...present(parameters) } }
  }
  await keep(parts, 'model', name, made_ as DerivedModel)
  yield { status: `using ${base.name}` }
  yield { status: 'writing manifest' }
  yield { status: 'success' }
}

/** What a model is made of: itself, where it is none that was made. */
const made = ({ card: { modelId }, made }: NamedModelCard): Omit<DerivedModel,
  'at'> => made ?? { from: modelId }

const now = ({ clock }: ApiParts): string => new Date(clock.now()).toISOString()

const NAME = /^[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}$/
/** What every node keeps of all that is made: so many, and so many bytes each. */
const MOST = 256
const MOST_BYTES = 16 * 1024

async function keep (parts: ApiParts, field: string, given: string, value: DerivedModel): Promise<void> {
  const name = given.replace(/:latest$/, '')
  if (!NAME.test(name)) {
    throw invalidField(field, 'must be letters, digits and . _ - / : and begin with one of the first')
  }
  if (parts.runners.card(name) !== undefined || Object.hasOwn(parts.aliases, name)) {
    throw invalidField(field, `${name} is a model of its own here; choose another name`)
  }
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (bytes > MOST_BYTES) throw invalidField(field,
    `has ${bytes} bytes of words; at most ${MOST_BYTES} are kept`)
  const others = [...parts.makes.all()].filter(({ key }) => key !== name)
  if (others.length >= MOST) {
    throw invalidField(field, `would be one more than the ${MOST} that are kept; delete one`)
  }
  await parts.makes.put(name, value)
}

/** What Ollama answers at its root, by which clients find out whether it runs. */
export const RUNNING = 'Ollama is running'
