import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { writeWhole } from '../boot/home.js'
import { readPin } from '../http/tls/pin.js'
import { CliError, exitCodes } from './errors.js'

export interface KnownNode { readonly at: string, readonly fingerprint: string }

/** File of trusted nodes, one per line: `attic.lan:52415 sha256//…`. */
export const knownNodesFile = (home: string): string => join(home, 'known-nodes')

/** HOST:PORT of an https URL, in the notation of the known-nodes file. */
export function placeOf ({ hostname, port }: URL): string {
  return `${hostname.toLowerCase()}:${port === '' ? '443' : port}`
}

/** Throws CliError (1) for an unreadable line, since that line may be about any node. */
export function readKnownNodes (home: string): KnownNode[] {
  return linesOf(home).map((line, i) => {
    const node = parse(line)
    if (readPin(node.fingerprint) !== null) return node
    throw new CliError(exitCodes.failed,
      `${knownNodesFile(home)}, line ${i + 1}: expected HOST:PORT sha256//…; run: svc known rm ${node.at}`)
  })
}

/** Adds a node; creates the home if needed. */
export function addKnownNode (home: string, { at, fingerprint }: KnownNode): void {
  const path = knownNodesFile(home)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  // An append is a single write, so two concurrent commands both keep their lines.
  const file = openSync(path, 'a', 0o600)
  try { writeFileSync(file, `${at} ${fingerprint}\n`) } finally { closeSync(file) }
}

/** Removes the nodes at HOST:PORT, or at every port of HOST, and returns them. */
export function forgetKnownNodes (home: string, place: string): KnownNode[] {
  const wanted = place.toLowerCase()
  const isMeant = ({ at }: KnownNode): boolean => at === wanted || at.replace(/:\d+$/, '') === wanted
  const lines = linesOf(home)
  const [gone, kept] = [true, false].map((meant) => lines.filter((line) => isMeant(parse(line)) === meant))
  if (gone!.length > 0) writeWhole(knownNodesFile(home), kept!.map((line) => `${line}\n`).join(''))
  return gone!.map(parse)
}

function linesOf (home: string): string[] {
  try {
    return readFileSync(knownNodesFile(home), 'utf8').split('\n').filter((line) => line !== '')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

function parse (line: string): KnownNode {
  const [at = '', fingerprint = ''] = line.split(' ')
  return { at, fingerprint }
}
