import { kernelError, Reply, textOf } from '../../../kernel/index.js'
import type { NodeView, RouteDecl, RouteRequest, SvcError } from '../../../kernel/index.js'
import { errors } from '../declarations.js'
import { modelIdProblem } from '../files/names.js'
import type { StagingContext } from '../manifest.js'
import type { ModelManager } from '../manager/manager.js'
import type { FinderParts } from '../peers/finder.js'
import { modelPath } from '../peers/sources.js'
import { virtualModel } from '../service.js'
import type { Store } from '../store/store.js'
import type { Failure } from '../transfer/job.js'
import { StoreError } from '../types.js'

/** Validates a model id. Throws `invalid_request` naming the field. */
export function modelIdOf (value: string, path = '/model_id'): string {
  const problem = modelIdProblem(value)
  if (problem === null) return value
  const issues = [{ path, message: problem }]
  throw kernelError('invalid_request', problem, { param: path.slice(1), issues })
}

export const modelIn = ({ params }: RouteRequest): string =>
  modelIdOf((params as { model_id: string }).model_id)

/** A body field that has two spellings. Throws `invalid_request` if both are given. */
export function eitherSpelling<T> (
  body: Readonly<Record<string, unknown>>, camel: string, snake: string
): T | undefined {
  if (body[camel] !== undefined && body[snake] !== undefined) {
    const message = `use ${camel} or ${snake}, not both`
    throw kernelError('invalid_request', message, { issues: [{ path: `/${snake}`, message }] })
  }
  return (body[camel] ?? body[snake]) as T | undefined
}

/** Throws if the model is virtual, because a virtual model has no files. */
export function refuseVirtual ({ virtual }: Pick<ModelManager, 'virtual'>, modelId: string): void {
  if (virtual().some((card) => card.modelId === modelId)) throw virtualModel(modelId)
}

export function nodeOf ({ cluster }: Pick<ModelManager, 'cluster'>, ref: string): NodeView {
  const node = cluster.resolve(ref)
  if (node === undefined) throw kernelError('node_not_found', `There is no node ${ref}.`)
  return node
}

/** API errors for failures whose reason has another name; `no_source`: no source is left. */
const NAMED: Readonly<Record<string, keyof typeof errors>> = {
  no_hub: 'hub_disabled', no_download: 'download_not_found', not_in_store: 'model_not_found',
  bad_source: 'import_refused', no_source: 'store_unreachable'
}

/** A failure as an API error; reasons that the API does not declare become `download_failed`. */
export function failureError (ctx: StagingContext, { reason, message }: Failure): SvcError {
  const own = Object.hasOwn(errors, reason) ? reason as keyof typeof errors : 'download_failed'
  return ctx.error(NAMED[reason] ?? own, message)
}

export const apiError = ({ ctx }: Pick<ModelManager, 'ctx'>, error: unknown): unknown =>
  error instanceof StoreError ? failureError(ctx, error) : error

type Route = Pick<RouteDecl, 'method' | 'url'>

/** A handler that runs on the store host; other nodes forward the request to it. */
export const onStoreHost = <R extends RouteRequest>(
  route: Route, work: (store: Store, manager: ModelManager, request: R) => unknown
) => async (manager: ModelManager, request: R): Promise<unknown> => {
  const { store } = manager
  if (store === null) return await forward(manager, request, route)
  try { return await work(store, manager, request) } catch (error) { throw apiError(manager, error) }
}

/** Timeout in ms and size limit in bytes for the store host's answer. */
const FORWARD_MS = 60_000
const ANSWER_BYTES = 64 * 1024 * 1024

/**
 * Forwards a request to the store host, optionally with another body. Throws `store_not_configured` or
 * `store_unreachable`, the latter also if this node should be the store host but is not.
 */
export async function forward (
  { access, ctx }: Pick<FinderParts, 'access' | 'ctx'>, request: RouteRequest, route: Route, body?: unknown
): Promise<Reply> {
  const host = access.host()
  if (host.self || request.member !== null) {
    throw ctx.error('store_unreachable', 'This node is not a store host.')
  }
  const { caller, signal } = request
  const answer = await ctx.deps.cluster.request(host.installId, {
    method: route.method, path: pathOf(route, request), caller, signal, timeoutMs: FORWARD_MS,
    ...body === undefined ? {} : { body }
  })
  const text = await textOf(answer.body as AsyncIterable<Uint8Array>, ANSWER_BYTES)
  const again = answer.headers['retry-after']
  return new Reply(JSON.parse(text) as unknown, answer.status,
    again === undefined ? {} : { 'retry-after': again })
}

function pathOf ({ url }: Route, request: RouteRequest): string {
  const path = url.includes(':model_id') ? url.replace(':model_id', modelPath(modelIn(request))) : url
  const query = new URLSearchParams(Object.entries(request.query as object).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, String(one)])))
  return query.size === 0 ? path : `${path}?${query.toString()}`
}
