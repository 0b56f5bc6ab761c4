import type { Channel } from '../../api/services.js'
import type { Channels } from '../links/channels.js'
import type { ControlLog } from '../log/log.js'
import type { Replicas } from './replicas.js'

interface Digest {
  readonly boot: string
  readonly observed: { readonly seq: number, readonly hash: string }
  readonly control: { readonly sid: string | null, readonly term: number, readonly seq: number,
    readonly gen: number, readonly hash: string }
}

export interface DigestsOptions {
  channels: Channels
  control: ControlLog
  replicas: Replicas
  /** This node's id. */
  boot: string
  masterInstallId: () => string | null
  /** Asks the master for the whole control document. */
  need: (master: string, sid: string) => void
  diverged: (installId: string) => void
}

/**
 * The alarm for documents that differ. Every node says once per heartbeat how far its documents are and what
 * they hash to; a replica at the same position with a different hash reloads the document.
 */
export class Digests {
  readonly #options: DigestsOptions
  readonly #channel: Channel<Digest>

  constructor (options: DigestsOptions) {
    this.#options = options
    const heard = (from: string, digest: Digest): void => { this.#heard(from, digest) }
    this.#channel = options.channels.open<Digest>('kernel.digest', heard)
  }

  tell (): void {
    const { boot, control, replicas } = this.#options
    this.#channel.broadcast({ boot, observed: replicas.digest(), control: control.position() })
  }

  #heard (from: string, { boot, observed, control: theirs }: Digest): void {
    const { control, replicas, masterInstallId, need, diverged } = this.#options
    replicas.compare(from, { boot, ...observed })
    if (from !== masterInstallId()) return
    const mine = control.position()
    const same = mine.sid === theirs.sid && mine.term === theirs.term && mine.seq === theirs.seq &&
      mine.gen === theirs.gen
    if (!same || mine.hash === theirs.hash || mine.sid === null) return
    control.distrust()
    need(from, mine.sid)
    diverged(from)
  }
}
