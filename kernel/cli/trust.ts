import { X509Certificate } from 'node:crypto'
import { Agent } from 'node:https'
import { isIP } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { pinOf, readPin } from '../http/tls/pin.js'
import { CliError, exitCodes, usageError } from './errors.js'
import { addKnownNode, knownNodesFile, placeOf, readKnownNodes } from './known-nodes.js'
import type { Duplex } from 'node:stream'

export interface PresentedIdentity {
  readonly fingerprint: string
  /** Why this system's certificate authorities reject the certificate; null if they accept it. */
  readonly problem: string | null
}

/** How to verify the node at an https address. */
export interface TrustOptions {
  readonly home: string
  readonly own?: string | undefined
  readonly given?: string | undefined
  /** Asks whether an unknown fingerprint is correct; undefined if there is no user to ask. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined
}

/** Time limit in ms for connecting, including the TLS handshake. */
const CONNECT_MS = 15_000

export class TrustingAgent extends Agent {
  readonly #at: URL
  readonly #options: TrustOptions
  /** Pending or finished checks by key, so that the user is asked about each unknown key only once. */
  readonly #judged = new Map<string, Promise<void>>()
  #fingerprint: string | undefined

  constructor (at: URL, options: TrustOptions) {
    super({ keepAlive: true })
    this.#at = at
    this.#options = options
  }

  /** Key fingerprint of the newest connection that passed the check. */
  get fingerprint (): string | undefined { return this.#fingerprint }

  override createConnection (
    _options: unknown, done: (error: Error | null, socket?: Duplex) => void
  ): undefined {
    this.#dial().then((socket) => { done(null, socket) }, done)
  }

  async #dial (): Promise<TLSSocket> {
    const host = this.#at.hostname.replace(/^\[|\]$/g, '')
    const socket = connect({
      host, port: Number(this.#at.port === '' ? 443 : this.#at.port), rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'], ...isIP(host) === 0 ? { servername: host } : {}
    })
    try {
      const shown = await handshake(socket)
      const key = `${shown.fingerprint} ${shown.problem ?? ''}`
      const judged = this.#judged.get(key) ?? verifyPeer(this.#at, shown, this.#options)
      this.#judged.set(key, judged)
      await judged
      this.#fingerprint = shown.fingerprint
      return socket
    } catch (error) {
      socket.on('error', () => {}).destroy()
      throw error
    }
  }
}

function handshake (socket: TLSSocket): Promise<PresentedIdentity> {
  return new Promise((resolve, reject) => {
    const late = (): void => {
      reject(Object.assign(new Error('no TLS connection in time'), { code: 'ETIMEDOUT' }))
    }
    socket.setTimeout(CONNECT_MS, late).once('error', reject)
    socket.once('secureConnect', () => {
      socket.setTimeout(0, late).off('error', reject)
      const { raw } = socket.getPeerCertificate()
      const { authorized, authorizationError } = socket
      // Despite its type, the property is an error code, or an error for a wrong host name.
      const why = authorizationError as Error | string | undefined
      resolve({
        fingerprint: pinOf(new X509Certificate(raw)),
        problem: authorized ? null : why instanceof Error ? why.message : String(why)
      })
    })
  })
}

/**
 * Throws CliError (1) unless the node has the known or given key, a certificate that this system accepts, or
 * an approval by the user. Records an approved key.
 */
export async function verifyPeer (at: URL, shown: PresentedIdentity, options: TrustOptions): Promise<void> {
  const { home, own, given, ask } = options
  if (own !== undefined) {
    if (own === shown.fingerprint) return
    throw refused(`${at.origin} is the address of the node of this home (${home}), but the server there ` +
      `has another key:\n  expected ${own}\n  found    ${shown.fingerprint}\n  Is it another node?`)
  }
  const place = placeOf(at)
  const known = readKnownNodes(home).filter((node) => node.at === place)
  if (known.length > 0) {
    if (known.some(({ fingerprint }) => fingerprint === shown.fingerprint)) return
    throw refused(changed(place, known[0]!.fingerprint, shown.fingerprint, home))
  }
  if (given !== undefined) {
    if (fingerprintGiven(given) !== shown.fingerprint) {
      throw refused(`${place} does not have the key of --fingerprint:\n  expected ` +
        `${fingerprintGiven(given)}\n  found    ${shown.fingerprint}`)
    }
  } else if (shown.problem === null) {
    return
  } else {
    await askAbout(place, shown, ask)
  }
  addKnownNode(home, { at: place, fingerprint: shown.fingerprint })
}

async function askAbout (
  place: string, { fingerprint, problem }: PresentedIdentity, ask: TrustOptions['ask']
): Promise<void> {
  const unknown = `the key of ${place} is unknown here, and its certificate is not trusted (${problem})`
  const compare = 'compare it with the output of `svc up` there, or of `svc doctor` on that machine'
  if (ask === undefined) {
    throw refused(`${unknown}\n  ${compare}; if it is the same, retry with:\n  --fingerprint ${fingerprint}`)
  }
  if (await ask(`${unknown}.\nIts fingerprint is ${fingerprint}\n${compare}. Is it the same?`)) return
  throw refused(`${place} is not trusted; nothing was sent to it`)
}

function fingerprintGiven (given: string): string {
  const fingerprint = readPin(given)
  if (fingerprint !== null) return fingerprint
  throw usageError(`--fingerprint ${given}: expected sha256// and 44 characters, as \`svc up\` prints it`)
}

const refused = (message: string): CliError => new CliError(exitCodes.failed, message)

const changed = (place: string, before: string, now: string, home: string): string =>
  `THE KEY OF ${place} HAS CHANGED: someone may be intercepting the connection, or the node has a new ` +
  `home or key.\n  known ${before} (${knownNodesFile(home)})\n  found ${now}\n` +
  `Nothing was sent to it. If the change is expected, remove the old key and connect again:\n` +
  `  svc known rm ${place}`
