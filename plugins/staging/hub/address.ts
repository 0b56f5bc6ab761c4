import { BlockList, isIP } from 'node:net'

/** IPv4 that is not the public internet (IANA special-purpose registry, multicast and reserved space). */
const PRIVATE_4: [string, number][] = [
  ['0.0.0.0', 8], ['10.0.0.0', 8], ['100.64.0.0', 10], ['127.0.0.0', 8], ['169.254.0.0', 16],
  ['172.16.0.0', 12], ['192.0.0.0', 24], ['192.0.2.0', 24], ['192.88.99.0', 24], ['192.168.0.0', 16],
  ['198.18.0.0', 15], ['198.51.100.0', 24], ['203.0.113.0', 24], ['224.0.0.0', 4], ['240.0.0.0', 4]
]
/** Holes in 2000::/3: special uses, documentation, and 6to4, which carries any IPv4 inside. */
const HOLES_6: [string, number][] = [
  ['2001::', 23], ['2001:db8::', 32], ['2002::', 16], ['3fff::', 20]
]

const private4 = listOf(PRIVATE_4, 'ipv4')
const global6 = listOf([['2000::', 3]], 'ipv6')
const holes6 = listOf(HOLES_6, 'ipv6')
/** Link-local: nothing there is a hub, and clouds answer with credentials. EC2 has one of its own. */
const never4 = listOf([['169.254.0.0', 16], ['0.0.0.0', 8]], 'ipv4')
const never6 = listOf([['fe80::', 10], ['fd00:ec2::', 32], ['::', 128], ['::ffff:0:0', 96]], 'ipv6')

function listOf (nets: readonly [string, number][], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList()
  for (const [net, prefix] of nets) list.addSubnet(net, prefix, family)
  return list
}

/** Whether an address literal is on the public internet. False for what is no address. */
export function isPublicAddress (address: string): boolean {
  const plain = withoutZone(address)
  switch (isIP(plain)) {
    case 4: return !private4.check(plain, 'ipv4')
    case 6: return global6.check(plain, 'ipv6') && !holes6.check(plain, 'ipv6')
    default: return false
  }
}

/**
 * Whether an address may be used even though the operator named the host: anything but link-local
 * (cloud metadata), "this host", and IPv4 in IPv6 clothes.
 */
export function isUsableAddress (address: string): boolean {
  const plain = withoutZone(address)
  switch (isIP(plain)) {
    case 4: return !never4.check(plain, 'ipv4')
    case 6: return !never6.check(plain, 'ipv6')
    default: return false
  }
}

function withoutZone (address: string): string { return address.split('%', 1)[0]! }
