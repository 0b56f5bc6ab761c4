import os from 'node:os'
import { isLoopbackHost, readAddress } from '../identity/addresses.js'
import type { PageOf } from '../../../kernel/cluster.js'
import type { ClusterCore } from '../cluster.js'
import type { Members } from './file.js'

export interface KnownApi { readonly apiUrl: unknown, readonly address: string | undefined }

export interface ApiSources {
  cluster: Pick<ClusterCore, 'replicas' | 'directory' | 'service'>
  network: { readonly members: Pick<Members, 'find'> }
}

export function * apisOf ({ cluster, network }: ApiSources): Iterable<KnownApi> {
  for (const { installId, key, value } of cluster.replicas.entries()) {
    if (key !== 'node/identity' || installId === cluster.service.self.installId) continue
    if (network.members.find(installId) === undefined) continue
    const { apiUrl } = value as { apiUrl?: unknown }
    yield { apiUrl, address: cluster.directory.addressOf(installId) }
  }
}

/**
 * Finds the member whose API has this origin (scheme, host and port); null if there is none. A loopback
 * origin matches members on this machine only.
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

/** Whether the address belongs to this machine, so a connection from it is local. */
function isOwnAddress (host: string): boolean {
  const plain = host.replace(/^::ffff:/, '')
  return Object.values(os.networkInterfaces()).some((list) => list?.some(({ address }) => address === plain))
}
