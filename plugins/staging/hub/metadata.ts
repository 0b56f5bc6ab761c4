import { createHash } from 'node:crypto'
import { EMPTY_SHA256, MOST_FILES, filePathProblem, shown } from '../files/index.js'
import { HubError } from './errors.js'
import type { HubFile, HubSelection } from './types.js'

/** What the API says of one revision of a model. */
export type HubModelInfo = Pick<HubSelection, 'commit' | 'files' | 'licence' | 'languages'>

const SHA256 = /^[0-9a-f]{64}$/
const SHA1 = /^[0-9a-f]{40}$/
const LICENCE = /^[A-Za-z0-9._+-]{1,64}$/
const LANGUAGE = /^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$/
const EMPTY_BLOB_SHA1 = createHash('sha1').update('blob 0\0').digest('hex')

type Fields = Record<string, unknown>

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Reads the answer of `/api/models/{id}/revision/{rev}?blobs=true`. What is needed is checked here in shape;
 * the names of files only by `checkSelected`, for a model may hold files nobody wants under any name.
 * Throws HubError `bad_answer`.
 */
export function readModelInfo (text: string): HubModelInfo {
  const answer = parse(text)
  const { sha, siblings } = answer
  if (typeof sha !== 'string' || !SHA1.test(sha)) throw bad('it names no commit')
  if (!Array.isArray(siblings)) throw bad('it lists no files')
  const cardData = isObject(answer['cardData']) ? answer['cardData'] : {}
  const tags = texts(answer['tags'])
  const licences = [...texts(cardData['license']), ...tags.filter((tag) => tag.startsWith('license:'))
    .map((tag) => tag.slice('license:'.length))]
  return {
    commit: sha,
    files: siblings.map(readFile),
    licence: licences.find((name) => LICENCE.test(name)) ?? null,
    languages: texts(cardData['language']).filter((tag) => LANGUAGE.test(tag)).slice(0, 200)
  }
}

function parse (text: string): Fields {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    throw bad('it is no JSON')
  }
  if (!isObject(answer)) throw bad('it is no object')
  return answer
}

function readFile (sibling: unknown): HubFile {
  if (!isObject(sibling)) throw bad('a file is no object')
  const { rfilename: path, blobId, lfs } = sibling
  if (typeof path !== 'string') throw bad('a file has no name')
  const size = isObject(lfs) ? lfs['size'] ?? sibling['size'] : sibling['size']
  const sha256 = isObject(lfs) ? lfs['sha256'] ?? lfs['oid'] : undefined
  return {
    path,
    // -1 and null: told by checkSelected, if somebody wants that file.
    size: typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : -1,
    sha256: typeof sha256 === 'string' && SHA256.test(sha256) ? sha256 : null,
    gitSha1: typeof blobId === 'string' && SHA1.test(blobId) && !isObject(lfs) ? blobId : null
  }
}

/**
 * Checks the files that are to be fetched: names that are safe on every platform and differ in more than
 * case, sizes, and a hash for each. Throws HubError `bad_answer`. Returns the sum of the sizes.
 */
export function checkSelected (files: readonly HubFile[]): number {
  if (files.length > MOST_FILES) throw bad(`${files.length} files are more than ${MOST_FILES}`)
  const seen = new Set<string>()
  let total = 0n
  for (const file of files) {
    const problem = filePathProblem(file.path)
    if (problem !== null) throw bad(problem)
    const folded = file.path.toLowerCase()
    if (seen.has(folded)) throw bad(`${shown(file.path)} is there twice but for upper and lower case`)
    seen.add(folded)
    checkFile(file)
    total += BigInt(file.size)
  }
  if (total > BigInt(Number.MAX_SAFE_INTEGER)) throw bad(`its files are ${total} bytes together`)
  return Number(total)
}

function checkFile (file: HubFile): void {
  const { path, size, sha256, gitSha1 } = file
  if (size < 0) throw bad(`${path} has no size`)
  if (sha256 === null && gitSha1 === null) throw bad(`${path} has no hash to check it by`)
  const empty = sha256 === EMPTY_SHA256 || gitSha1 === EMPTY_BLOB_SHA1
  if (empty !== (size === 0)) throw bad(`${path} has ${size} bytes, and its hash says otherwise`)
}

function texts (value: unknown): string[] {
  const list: unknown[] = Array.isArray(value) ? value : [value]
  return list.filter((entry) => typeof entry === 'string')
}

function bad (why: string): HubError {
  return new HubError('bad_answer', `the hub's description of the model cannot be used: ${why}`)
}
