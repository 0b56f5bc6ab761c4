/** The tokenizer of the generated models. */

type Json = Record<string, unknown>
export interface TextFiles { tokenizer: Json, config: Json }

const added = (content: string, id: number): Json =>
  ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })

const PIECES = ['s', 'ed', 'ing', 'er', 'ly', 'es', 'tion', 'ness', 'ment', 'al', 'ic', 'able']
const WORDS = `the of and to in a is that for it as was with be by on not he i this are or his from at which
but have an had they you were their one all we can her has there been if more when will would
who so no what up out about into than them only some could time these two may then do first any
my now such like our over man me even most made after also did many before must through back
years where much your way well down should because each just those people mr how too little
state good very make world still own see men work long get here between both life being under
never day same another know while last might us great old year off come since against go came
right used take three small large house road water rain city river bread cat dog walk red green
blue morning night open close near far north south east west summer winter`.split(/\s+/)

/** A WordPiece tokenizer like BERT's, of common English words, letters and endings. */
export function wordPieces (): TextFiles {
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
  const letters = [...'abcdefghijklmnopqrstuvwxyz0123456789.,!?;:\'"()-']
  const all = [...special, ...letters, ...letters.map((letter) => `##${letter}`),
    ...PIECES.map((piece) => `##${piece}`), ...WORDS]
  const vocab = Object.fromEntries([...new Set(all)].map((token, id) => [token, id]))
  const [cls, sep] = [vocab['[CLS]'], vocab['[SEP]']] as [number, number]
  const tokens = Object.fromEntries([['[CLS]', cls], ['[SEP]', sep]].map(([id, number]) =>
    [id, { id, ids: [number], tokens: [id] }]))
  const piece = (id: string, type: number): Json => ({ SpecialToken: { id, type_id: type } })
  const single = [piece('[CLS]', 0), { Sequence: { id: 'A', type_id: 0 } }, piece('[SEP]', 0)]
  return {
    tokenizer: {
      version: '1.0', truncation: null, padding: null,
      added_tokens: special.map((content, id) => added(content, id)),
      normalizer: {
        type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null,
        lowercase: true
      },
      pre_tokenizer: { type: 'BertPreTokenizer' },
      post_processor: {
        type: 'TemplateProcessing', single,
        pair: [...single, { Sequence: { id: 'B', type_id: 1 } }, piece('[SEP]', 1)], special_tokens: tokens
      },
      decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
      model: {
        type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', vocab,
        max_input_chars_per_word: 100
      }
    },
    config: {
      tokenizer_class: 'BertTokenizer', do_lower_case: true, model_max_length: 512, unk_token: '[UNK]',
      sep_token: '[SEP]', pad_token: '[PAD]', cls_token: '[CLS]', mask_token: '[MASK]'
    }
  }
}
