import os from 'node:os'
import { isLoopbackHost, readAddress } from '../identity/addresses.js'
import type { ClusterCore } from '../cluster.js'
import type { Members } from './file.js'

/** Where the member runs whose web page an origin is: on this machine, or on another one. */
export type PageOf = 'here' | 'elsewhere'

/** What is known of another member: where its API is, and the other end of the newest link to it. */
export interface KnownApi { readonly apiUrl: unknown, readonly address: string | undefined }

export interface ApiSources {
  cluster: Pick<ClusterCore, 'replicas' | 'directory' | 'service'>
  network: { readonly members: Pick<Members, 'find'> }
}

/** What the other members say of their APIs, also those that are gone; one that was removed is no member. */
export function * apisOf ({ cluster, network }: ApiSources): Iterable<KnownApi> {
  for (const { installId, key, value } of cluster.replicas.entries()) {
    if (key !== 'node/identity' || installId === cluster.service.self.installId) continue
    if (network.members.find(installId) === undefined) continue
    const { apiUrl } = value as { apiUrl?: unknown }
    yield { apiUrl, address: cluster.directory.addressOf(installId) }
  }
}

/**
 * Whose web page an origin is: scheme, host and port of what a member says its API is have to be the same. A
 * loopback origin counts for members on this machine only: that of another machine is not the one here. Null:
 * no member's.
 */
export function pageOf (
  origin: string, members: Iterable<KnownApi>, isOwn: (host: string) => boolean = isOwnAddress
): PageOf | null {
  let found: PageOf | null = null
  for (const { apiUrl, address } of members) {
    if (typeof apiUrl !== 'string' || !URL.canParse(apiUrl)) continue
    const url = new URL(apiUrl)
    if (url.origin !== origin || (url.protocol !== 'http:' && url.protocol !== 'https:')) continue
    const from = address === undefined ? undefined : readAddress(address)?.host
    if (from !== undefined && (isLoopbackHost(from) || isOwn(from))) return 'here'
    if (!isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ''))) found = 'elsewhere'
  }
  return found
}

/** Nobody else opens a connection from an address of this machine. */
function isOwnAddress (host: string): boolean {
  const plain = host.replace(/^::ffff:/, '')
  return Object.values(os.networkInterfaces()).some((list) => list?.some(({ address }) => address === plain))
}
