import { kernelError, type RouteRequest } from '../../../kernel/index.js'
import { filePathProblem } from '../files/names.js'
import { fileOf } from '../files/record.js'
import { fileUrl } from '../peers/sources.js'
import { sendFile } from '../peers/send-file.js'
import { routes } from '../routes.js'
import { forward, modelIdOf, modelIn } from './request.js'
import type { PartialCopy } from '../peers/exchange.js'
import type { ModelManager } from '../manager/manager.js'
import type { LocalCopy, ModelContent } from '../types.js'

/** A copy to send to other nodes; `has` tells which verified ranges of a partial copy can be sent. */
type Sendable = ModelContent & Pick<LocalCopy, 'directory'> & Partial<Pick<PartialCopy, 'has'>>

interface Asked { from?: string, digest?: string }

/** Finds the copy to send: the store's, or with `from=self` any on this node, exported ones first. */
function copyOf (manager: ModelManager, modelId: string, { from, digest }: Asked): Sendable | undefined {
  const { local, store, exchange } = manager
  const stored = store?.offer(modelId)
  if (from !== 'self') return stored
  const partial = exchange.partial(modelId)
  const copies = [...local.versions(modelId), partial, stored].filter((copy) => copy !== undefined)
  if (partial?.exported === true) copies.unshift(partial)
  return copies.find((copy) => digest === undefined || copy.digest === digest)
}

function missing (manager: ModelManager, modelId: string, { from }: Asked): Error {
  const where = from === 'self' ? 'on this node' : 'in the store'
  return manager.ctx.error('model_not_found', `There is no model ${modelId} ${where}.`)
}

export async function manifest (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  const modelId = modelIn(request)
  const asked = request.query as Asked
  const found = copyOf(manager, modelId, asked)
  if (found !== undefined) return { ...found.manifest, digest: found.digest, card: found.card }
  if (asked.from === 'self' || manager.store !== null) throw missing(manager, modelId, asked)
  return await forward(manager, request, routes.manifest)
}

export async function file (manager: ModelManager, request: RouteRequest): Promise<void> {
  const params = request.params as { model_id: string, '*': string }
  const modelId = modelIdOf(params.model_id)
  const path = params['*']
  const problem = filePathProblem(path)
  if (problem !== null) {
    throw kernelError('invalid_request', problem, { issues: [{ path: '/*', message: problem }] })
  }
  const asked = request.query as Asked
  const found = copyOf(manager, modelId, asked)
  if (found === undefined && asked.from !== 'self' && manager.store === null) {
    return await pass(manager, request, modelId, path)
  }
  if (found === undefined) throw missing(manager, modelId, asked)
  const entry = fileOf(found.manifest, path)
  if (entry === undefined) throw manager.ctx.error('model_not_found', `${modelId} has no file ${path}.`)
  await sendFile(request, {
    folder: found.directory, path, size: entry.size, sha256: entry.sha256,
    has: (range) => found.has?.(path, range) ?? true
  }, { uplink: manager.uplink, error: (reason, message) => manager.ctx.error(reason, message) })
}

const PASSED = ['range', 'if-range'] as const
const KEPT = ['content-length', 'content-range', 'etag', 'accept-ranges']

async function pass (
  manager: ModelManager, request: RouteRequest, modelId: string, path: string
): Promise<void> {
  const host = manager.access.host()
  if (host.self || request.member !== null) throw missing(manager, modelId, {})
  const headers = Object.fromEntries(PASSED.flatMap((name) => {
    const value = request.headers[name]
    return value === undefined ? [] : [[name, value]]
  }))
  const answer = await manager.cluster.request(host.installId, {
    method: 'GET', path: fileUrl(modelId, path), headers, caller: request.caller, signal: request.signal
  })
  const kept = Object.fromEntries(Object.entries(answer.headers).filter(([name]) => KEPT.includes(name)))
  try {
    const stream = request.open({
      status: answer.status, headers: kept,
      contentType: answer.headers['content-type'] ?? 'application/octet-stream'
    })
    if (stream.closed) return
    for await (const piece of answer.body as AsyncIterable<Uint8Array>) await stream.write(piece)
  } finally { answer.body.destroy() }
}
