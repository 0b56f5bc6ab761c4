/** Cards that an operator keeps in a folder. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelCard } from '../../../kernel/index.js'
import { parseCard } from '../../runners/cards/card.js'
import { checkCardPaths, modelIdProblem } from '../files/names.js'
import { readText } from '../../runners/cards/reader.js'

/** The operator's own may be longer than those that come with models. */
const CARD_BYTES = 256 * 1024

/**
 * Every `*.yaml` in a folder, in the order of their names; a folder that is not there has none. A card that
 * cannot be used is a sentence in `problems`; of two with one id the later counts.
 */
export async function readHomeCards (folder: string): Promise<{ cards: ModelCard[], problems: string[] }> {
  const cards = new Map<string, ModelCard>()
  const problems: string[] = []
  for (const name of await names(folder, problems)) {
    const path = join(folder, name)
    try {
      const card = checkCardPaths(parseCard(await readText(path, CARD_BYTES, true), path), path)
      const problem = modelIdProblem(card.modelId)
      if (problem !== null) throw new Error(`model card ${path}: modelId: ${problem}`)
      if (cards.has(card.modelId)) {
        problems.push(`model card ${path}: modelId ${card.modelId} is in an earlier file too`)
      }
      cards.set(card.modelId, card)
    } catch (error) {
      problems.push(sentence((error as Error).message, path))
    }
  }
  return { cards: [...cards.values()], problems }
}

async function names (folder: string, problems: string[]): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') problems.push(`model cards in ${folder} cannot be read: ${message}`)
    return []
  }
}

function sentence (message: string, path: string): string {
  const line = message.split('\n', 1)[0]!.slice(0, 500)
  return line.includes(path) ? line : `model card ${path}: ${line}`
}
