/** Ollama's routes that pull and delete models. */
import { createHash } from 'node:crypto'
import { badField, delay, errorBody, kernelError, toSvcError } from '../../../../kernel/index.js'
import { present } from '../../../runners/language/json.js'
import { ollamaFailure } from '../../../staging/service.js'
import { instancesOf, unloadModel } from './load.js'
import { canonical, parsePullSource, find, nameIn } from './names.js'
import { requestLocal, storePath } from './own.js'
import type { FromSchema, RouteRequest } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'
import type { deleteBody, pullBody } from './body.js'
import type { PullSource } from './names.js'

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
  if (ships || parts.models?.isVirtual(name) === true) {
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

/** Deletes a model: its files, and its instances. */
export async function ollamaDelete (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof deleteBody }>
): Promise<object> {
  const given = nameIn(request.body as FromSchema<typeof deleteBody>)
  const { name, card: { modelId } } = find(parts, given)
  if (modelId !== name) {
    throw badField('model', `${name} is an alias in the settings (plugins.chat.model_aliases)`)
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
