export interface ErrorDecl {
  readonly status: number
  readonly retryable: boolean
  /** Default error message; the code that throws usually gives a better one with the numbers. */
  readonly message: string
  /** What to do next; sent in `details.remedy`. */
  readonly remedy: string
  /** Seconds for the Retry-After header of a 429 or 503. */
  readonly retryAfterSeconds?: number
}

/** An error with a registered reason; all routes and streams send it in the same error body. */
export class SvcError extends Error {
  readonly reason: string
  readonly status: number
  readonly retryable: boolean
  readonly details: Record<string, unknown>
  readonly param: string | null
  readonly retryAfterSeconds: number | undefined
  readonly headers: Record<string, string>

  constructor (reason: string, decl: ErrorDecl, message?: string, details: Record<string, unknown> = {}) {
    super(message ?? decl.message)
    this.name = 'SvcError'
    this.reason = reason
    this.status = decl.status
    this.retryable = decl.retryable
    // OpenAI's and Anthropic's clients retry 408, 409 and 5xx unless `x-should-retry` is false.
    this.headers = decl.retryable || ![408, 409].includes(decl.status) && decl.status < 500 ? {}
      : { 'x-should-retry': 'false' }
    this.details = { remedy: decl.remedy, ...details }
    this.param = typeof details['param'] === 'string' ? details['param'] : null
    this.retryAfterSeconds = typeof details['retryAfterSeconds'] === 'number'
      ? details['retryAfterSeconds']
      : decl.retryAfterSeconds
  }
}

export function withHeaders (error: SvcError, headers: Record<string, string>): SvcError {
  const { status, retryable, message, reason, details } = error
  const { retryAfterSeconds } = error
  const again = retryAfterSeconds === undefined ? {} : { retryAfterSeconds }
  const copy = new SvcError(reason, { status, retryable, message, remedy: '', ...again }, message, details)
  Object.assign(copy.headers, error.headers, headers)
  return copy
}

const retry = (status: number, message: string, remedy: string, retryAfterSeconds?: number): ErrorDecl => ({
  status, retryable: true, message, remedy, ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
})
const final = (status: number, message: string, remedy: string): ErrorDecl =>
  ({ status, retryable: false, message, remedy })

/** The kernel's error reasons; plugins declare theirs in their manifests. */
export const kernelErrors = {
  invalid_request: final(400, 'The request is not valid.', 'Fix the fields named in details.issues.'),
  tls_required: final(400, 'This port speaks TLS only.', 'Use https:// instead of http://.'),
  invalid_payload: final(400, 'The payload does not match the capability.',
    'See the input schema: `svc capabilities ID@VERSION`.'),
  unauthenticated: final(401, 'This needs a token.',
    'Create one with `svc token create NAME` on the node\'s host.'),
  missing_grant: final(403, 'The credential lacks the authority.',
    'Ask the operator for a token that has it.'),
  model_not_allowed: final(403, 'The key may not use this model.',
    'Use a model in details.models, or ask the operator for a key that may use this one.'),
  foreign_origin: final(403, 'Requests from this web page are not allowed.',
    'List the origin under api.allowed_origins in svc.yaml.'),
  join_refused: final(403, 'The cluster refused this node.',
    'Create a new token with `svc join-token` on a member, and use it before it expires.'),
  not_found: final(404, 'There is no such route.', 'GET /openapi.json lists every route.'),
  plugin_disabled: final(404, 'The plugin that owns this route is disabled.',
    '`svc plugin ls` shows the disabled plugins; `svc plugin enable` enables one.'),
  node_not_found: final(404, 'No such node is known.', '`svc status` shows the nodes.'),
  no_instance: final(404, 'No instance found for the model.',
    'Place the model first; `svc status` shows what runs.'),
  wrong_task: final(400, 'The model does not support this task.',
    'Choose a model that does; GET /v1/models shows the tasks of each.'),
  capability_not_found: final(404, 'No such capability on this node.', '`svc capabilities` lists them.'),
  not_recorded: final(404, 'There is no record of that time.',
    'Choose a later one; `svc events` shows the recorded indices and times.'),
  command_unknown: final(404, 'No such command is running.', 'It may have ended already.'),
  method_not_allowed: final(405, 'This path does not support the method.', 'See the Allow header.'),
  request_timeout: final(408, 'The request took too long to arrive.',
    'Send the whole request within 30 seconds.'),
  version_mismatch: final(409, 'The capability exists in another version.',
    '`svc capabilities` lists the versions.'),
  revision_mismatch: final(409, 'The capability has changed since it was discovered.',
    'Read GET /v1/capabilities again and pin the current revision.'),
  restart_pending: retry(409, 'A restart is already in progress.', 'Wait for it to finish.', 5),
  loopback_only: final(409, 'This node listens for members on loopback only.',
    'Set cluster.host in svc.yaml to an address that the other machine can reach, restart the node, and ' +
    'try again.'),
  member_self: final(409, 'A node cannot remove itself.', 'Ask another node of the cluster to remove it.'),
  config_changed: final(409, 'svc.yaml has changed since it was read.',
    'Read GET /config again and repeat the change.'),
  plugin_failed: final(409, 'The plugin did not start.',
    'Fix the problem in the message, and enable it again.'),
  payload_too_large: final(413, 'The body is too large.', 'Send less, or raise the limit in svc.yaml.'),
  expectation_failed: final(417, 'The only supported Expect header is 100-continue.',
    'Send the request without the header.'),
  uri_too_long: final(414, 'The URL is too long.', 'Shorten the path or the query.'),
  unsupported_media_type: final(415, 'Only JSON bodies in UTF-8 are accepted here.',
    'Send content-type: application/json.'),
  misdirected: final(421, 'This Host name is not served here.',
    'List it under api.allowed_hosts in svc.yaml.'),
  overloaded: retry(429, 'Too many requests at once.', 'Try again after the time in Retry-After.', 1),
  header_too_large: final(431, 'The request headers are too large.', 'Send fewer or smaller headers.'),
  internal: final(500, 'The node failed to handle the request.',
    'The node\'s log has the cause under this request id.'),
  instance_lost: retry(500, 'The instance serving this request was lost.', 'Retry the request.', 1),
  invalid_result: final(502, 'The capability returned a value that its schema does not allow.',
    'Report it to the plugin\'s author.'),
  provider_error: final(502, 'The capability failed.',
    'The node\'s log has the cause under this request id.'),
  unreachable: retry(502, 'The other node cannot be reached.', 'Check the network between the nodes.', 1),
  shutting_down: retry(503, 'The node is stopping.', 'Try again, or use another node.', 5),
  no_master: retry(503, 'No master is known at the moment.', 'Try again shortly.', 1),
  no_quorum: retry(503, 'Too few nodes of the cluster are reachable to make decisions.',
    'Bring the other nodes back; `svc nodes` shows which are missing.', 5),
  session_changed: retry(503, 'The cluster session changed.', 'Retry the request.', 1),
  connection_spent: retry(503, 'This connection has reached its request limit.', 'Open a new connection.', 1),
  not_ready: retry(503, 'Not ready yet.', '`svc status` shows what is missing.', 2),
  timeout: retry(504, 'No answer within the deadline.', 'Try again, or raise timeout_seconds.'),
  slow_consumer: final(500, 'The client read no data for too long.', 'Read faster, or request less data.'),
  cancelled: final(499, 'The call was cancelled.', 'Nothing to do.'),
  approval_denied: final(403, 'The cost of the call is not approved.',
    'Ask an approver; `svc approve` lists open requests and budgets.'),
  approval_timeout: retry(504, 'The cost of the call was not approved in time.',
    'Ask for an approval (`svc approve`) or a budget (`svc approve budget`), and try again.'),
  audit_unavailable: retry(507, 'The audit log cannot record the change, so it was not made.',
    'Free disk space on the volume of the home; `svc doctor` shows the problem.', 30),
  insufficient_storage: retry(507, 'The disk is full.',
    'Free space on that disk: `svc purge` removes staged copies, `svc rm` removes models of the store. ' +
    '`svc doctor` shows the disks.', 30),
  not_master: retry(503, 'This node is not the master.', 'Try again shortly.', 1)
} as const satisfies Record<string, ErrorDecl>

export type KernelReason = keyof typeof kernelErrors

/** The kernel's declaration of a reason; undefined for any other word, `constructor` included. */
export function kernelErrorDecl (reason: string): ErrorDecl | undefined {
  return Object.hasOwn(kernelErrors, reason) ? kernelErrors[reason as KernelReason] : undefined
}

export function kernelError (
  reason: KernelReason, message?: string, details?: Record<string, unknown>
): SvcError {
  return new SvcError(reason, kernelErrors[reason], message, details)
}

/** `invalid_request` that names one field of the request. */
export function badField (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}

/** `node_not_found` for an unknown node; if several nodes share the name, the message lists their ids. */
export function noSuchNode (
  ref: string, nodes: readonly { name: string, nodeId: string }[] = [], more = 'is known',
  details?: Record<string, unknown>
): SvcError {
  const twins = nodes.filter(({ name }) => name === ref).map(({ nodeId }) => nodeId)
  return kernelError('node_not_found', twins.length < 2 ? `No node "${ref.slice(0, 128)}" ${more}.`
    : `${twins.length} nodes have the name "${ref}": use the id of one, ${twins.join(' or ')}.`, details)
}

const DISK_FAULTS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full', EDQUOT: 'the quota is used up', EROFS: 'the file system is read-only',
  EIO: 'the disk has an I/O error'
}

/**
 * `insufficient_storage` for a write that failed because of the disk, such as a full one; undefined for every
 * other error. Pass `path` for writes to an open file, since Node names the path only if opening fails.
 */
export function diskError (error: unknown, path?: string, bytes?: number): SvcError | undefined {
  const { code = '', path: opened = null } = (error ?? {}) as { code?: string, path?: string }
  if (error instanceof SvcError || !Object.hasOwn(DISK_FAULTS, code)) return undefined
  const [file, size] = [path ?? opened, bytes === undefined ? '' : ` (${bytes} bytes)`]
  const refused = kernelError('insufficient_storage',
    `${file ?? 'A file of this node'}${size} cannot be written: ${DISK_FAULTS[code]} (${code}).`,
    { path: file, ...bytes === undefined ? {} : { bytes } })
  return Object.assign(refused, { cause: error })
}

/** Turns anything thrown into an SvcError; an unknown error becomes `internal` and loses its text. */
export function toSvcError (error: unknown): SvcError {
  return error instanceof SvcError ? error : diskError(error) ?? kernelError('internal')
}

/** The node cannot start; lists every problem found. */
export class BootError extends Error {
  override readonly name = 'BootError'
  readonly problems: readonly string[]
  constructor (problems: readonly string[]) {
    super(`the node cannot start:\n${problems.map((p) => `  - ${p}`).join('\n')}`)
    this.problems = problems
  }
}
