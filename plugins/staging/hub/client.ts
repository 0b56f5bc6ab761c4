import { modelIdProblem } from '../files/index.js'
import { createAgents, lookupAll } from './agents.js'
import { checkBodyHead, checkLinked } from './answers.js'
import { delay } from '../../../kernel/index.js'
import { backoffMs } from './backoff.js'
import { readBody } from './body.js'
import { HubError } from './errors.js'
import { HostRules } from './hosts.js'
import { checkSelected, readModelInfo } from './metadata.js'
import { discard, get, wireError } from './request.js'
import { selectFiles } from './select.js'
import type { Answer, Wire } from './request.js'
import type {
  HubBody, HubClient, HubClientOptions, HubFile, HubLimits, HubSelection, ResolveOptions
} from './types.js'

const LIMITS: HubLimits = {
  connectMs: 5000,
  headersMs: 15_000,
  idleMs: 20_000,
  floorBytesPerSecond: 65_536,
  floorWindowMs: 60_000,
  redirects: 5,
  metadataBytes: 32 * 1024 * 1024,
  retries: 2
}
const LONGEST_REVISION = 200

/** A client of the public model hub; see HubClientOptions. Throws TypeError for a URL that is none. */
export function createHubClient (options: HubClientOptions): HubClient {
  return new Client(options)
}

class Client implements HubClient {
  readonly url: string
  readonly #options: HubClientOptions
  readonly #limits: HubLimits
  readonly #wire: Wire

  constructor (options: HubClientOptions) {
    this.url = options.url.replace(/\/+$/, '')
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
    this.#wire = {
      rules: new HostRules(new URL(this.url), options.redirectHosts),
      agents: createAgents(this.#limits, options.lookup ?? lookupAll),
      token: options.token,
      redirects: this.#limits.redirects,
      now: () => options.clock.now(),
      onRedirect: (host, what) => { options.log?.debug({ host, what }, 'the hub redirects') }
    }
  }

  async resolve (modelId: string, options: ResolveOptions = {}): Promise<HubSelection> {
    const problem = modelIdProblem(modelId)
    if (problem !== null) throw new HubError('bad_request', problem)
    const revision = options.revision ?? 'main'
    if (revision === '' || revision.length > LONGEST_REVISION || /[\x00-\x20\x7f\\]|\.\./.test(revision)) {
      throw new HubError('bad_request', 'a revision is a branch, a tag or a commit')
    }
    const path = `${modelId}/revision/${encodeURIComponent(revision)}`
    const url = new URL(`${this.url}/api/models/${path}?blobs=true`)
    const text = await this.#patiently(() => this.#text(url, `${modelId}@${revision}`, options.signal),
      options.signal)
    const info = readModelInfo(text)
    const files = selectFiles(info.files, options)
    const totalBytes = checkSelected(files)
    const { commit, licence, languages } = info
    return { modelId, commit, revision, files, totalBytes, licence, languages }
  }

  async open (
    selection: HubSelection, file: HubFile, options: { start: number, signal?: AbortSignal }
  ): Promise<HubBody> {
    const { start, signal } = options
    const path = file.path.split('/').map(encodeURIComponent).join('/')
    const answer = await get(this.#wire, {
      url: new URL(`${this.url}/${selection.modelId}/resolve/${selection.commit}/${path}`),
      what: `${selection.modelId}/${file.path}`,
      headers: start > 0 ? { range: `bytes=${start}-` } : {},
      signal,
      onHub: (headers) => { checkLinked(headers, selection.commit, file) }
    })
    try {
      checkBodyHead(answer.status, answer.headers, file, start)
    } catch (error) {
      discard(answer)
      throw error
    }
    const stream = readBody(answer, file, start, this.#options.clock, this.#limits, signal)
    return { stream, total: file.size }
  }

  async close (): Promise<void> {
    await Promise.all(Object.values(this.#wire.agents).map((agent) => agent.destroy()))
  }

  async #text (url: URL, what: string, signal: AbortSignal | undefined): Promise<string> {
    const answer = await get(this.#wire, { url, what, headers: { accept: 'application/json' }, signal })
    return await readText(answer, what, this.#limits.metadataBytes, signal)
  }

  /** Tries again what may succeed later, after the pause the hub asks for. */
  async #patiently<T> (attempt: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const { clock, random, log } = this.#options
    for (let failures = 1; ; failures++) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof HubError) || !error.retryable || failures > this.#limits.retries) throw error
        const waitMs = Math.max(error.retryAfterMs ?? 0, backoffMs(failures, random))
        log?.warn({ reason: error.reason, waitMs: Math.round(waitMs) }, error.message)
        await delay(clock, waitMs, signal)
      }
    }
  }
}

async function readText (
  answer: Answer, what: string, mostBytes: number, signal: AbortSignal | undefined
): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  try {
    for await (const part of answer.body as AsyncIterable<Buffer>) {
      bytes += part.length
      if (bytes > mostBytes) {
        throw new HubError('bad_answer', `${what}: the answer is over ${mostBytes} bytes`)
      }
      parts.push(part)
    }
  } catch (error) {
    throw wireError(error, what, signal)
  }
  return Buffer.concat(parts).toString('utf8')
}
