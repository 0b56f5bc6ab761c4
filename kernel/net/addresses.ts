import { BlockList, isIP, isIPv4, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'

/**
 * Where a host name comes from. `named`: from svc.yaml or a local user, so it may be in the local network.
 * `public`: from a server or a caller, so it must be on the public internet. `local`: it must not be there.
 */
export type Trust = 'named' | 'public' | 'local'

const familyOf = (address: string): 'ipv4' | 'ipv6' => isIP(address) === 4 ? 'ipv4' : 'ipv6'

/** Never allowed: link-local, multicast, tunnels, and cloud metadata services, which return credentials. */
const NEVER = listOf('169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32', 'fe80::/10', 'ff00::/8',
  '2001::/32', '2002::/16', '100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32', 'fd00:ec2::/32',
  'fd20:ce::254/128', 'fd00:42::42/128')
/** Networks that the IANA special-purpose registries list as not globally reachable. */
const LOCAL = listOf('0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '172.16.0.0/12',
  '192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24',
  '203.0.113.0/24', '240.0.0.0/4', '2001::/23', '2001:db8::/32', '3fff::/20')
/** The IPv6 range with all assigned global addresses. */
const ASSIGNED = listOf('2000::/3')
const NAT64 = listOf('64:ff9b::/96', '64:ff9b:1::/48')
/** IPv4-compatible, IPv4-mapped and IPv4-translated addresses. */
const EMBEDDED = listOf('::/96', '::ffff:0:0/96', '::ffff:0:0:0/96')

const METADATA_NAME = /^(metadata|instance-data)(\.(google|ec2))?(\.internal)?$/
const LOCAL_NAME = /^[^.]*$|\.(localhost|local|internal|lan|home\.arpa)$/

/** A list of networks in CIDR notation, and of single addresses. */
export function listOf (...subnets: readonly string[]): BlockList {
  const list = new BlockList()
  for (const subnet of subnets) {
    const [address = '', bits] = subnet.split('/')
    if (bits === undefined) list.addAddress(address, familyOf(address))
    else list.addSubnet(address, Number(bits), familyOf(address))
  }
  return list
}

/** The last 32 bits of an IPv6 address as an IPv4 address. */
function lastIpv4 (address: string): string {
  const [high = 0, low = 0] = new URL(`http://[${address}]`).hostname.slice(1, -1).split(':').slice(-2)
    .map((group) => parseInt(group === '' ? '0' : group, 16))
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** Why svc must not connect to an address; null if it may. Text that is not an address is refused. */
export function addressProblem (text: string, trust: Trust): string | null {
  if (trust === 'local') {
    return addressProblem(text, 'named') ??
      (addressProblem(text, 'public') === null ? `${text} is not in the local network` : null)
  }
  const [address = ''] = text.split('%')
  const family = familyOf(address)
  if (isIP(address) === 0) return `${JSON.stringify(text)} is not an address`
  if (NEVER.check(address, family)) return `${text} is link-local, or a cloud metadata service`
  if (family === 'ipv6') {
    // NAT64: a public IPv4 address in the notation of an IPv6-only network counts as public.
    if (NAT64.check(address, family)) {
      const inner = lastIpv4(address)
      // RFC 6052 has further forms with the IPv4 address in the middle; those are refused.
      return inner.startsWith('0.') ? `${text} is not an address` : addressProblem(inner, trust)
    }
    if (EMBEDDED.check(address, family)) {
      return addressProblem(lastIpv4(address), 'named') ?? local(text, trust)
    }
    if (!ASSIGNED.check(address, family)) return local(text, trust)
  }
  return LOCAL.check(address, family) ? local(text, trust) : null
}

const local = (address: string, trust: Trust): string | null =>
  trust === 'named' ? null : `${address} is not a public address`

/** Like `addressProblem`, for the host of a URL before its name is resolved. */
export function hostProblem (hostname: string, trust: Trust): string | null {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '').toLowerCase()
  if (isIP(host) !== 0) return addressProblem(host, trust)
  if (host.endsWith('.')) return `${host} has an empty part`
  if (METADATA_NAME.test(host)) return `${host} is a cloud metadata service`
  return trust === 'public' && LOCAL_NAME.test(host) ? `${host} is a name of a local network` : null
}

const ownServers = new Set<Server>()

/** Registers a server of this process, so that the guard refuses svc's own connections to it. */
export function isOwnServer<S extends Server> (server: S): S {
  server.on('listening', () => { ownServers.add(server) })
  // A server that has been reopened may emit a late `close` for its previous port; it stays registered.
  server.on('close', () => { if (!server.listening) ownServers.delete(server) })
  return server
}

/** Whether a server in this process listens on the address and port. */
export function isOwnPort (address: string, port: number): boolean {
  const ports = [...ownServers].map((server) => (server.address() as { port?: number } | null)?.port)
  if (!ports.includes(port)) return false
  const embedded = isIP(address) === 6 && EMBEDDED.check(address, 'ipv6')
  const forms = embedded ? [address, lastIpv4(address)] : [address]
  const own = Object.values(networkInterfaces()).flat().map((one) => one!.address)
  return forms.some((form) => /^(127\.|0\.0\.0\.0$|::1?$)/.test(form) || own.includes(form))
}

/** True for loopback addresses, even IPv4-mapped. Only for a socket's address, never for a header's. */
export function isLoopback (address: string): boolean {
  const plain = address.startsWith('::ffff:') ? address.slice(7) : address
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))
}
