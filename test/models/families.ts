/** The models of npm run test:onnx: sizes, configuration, tokenizer and file layout. */
import { encoderGraph } from './encoders.js'
import type { Dtype, Graph } from './graph.js'
import { wordPieces, type TextFiles } from './texts.js'

export interface Family {
  /** Folder name of the model. */
  name: string
  opset: number
  config: Record<string, unknown>
  graph: (dtype: Dtype) => Graph
  text: TextFiles
  /** How the original model pools its token vectors. */
  pooling: 'mean' | 'cls'
  /** Whether the repository declares its pooling in 1_Pooling, as those of sentence-transformers do. */
  poolingFile: boolean
}

function encoder (name: string, hidden: number, pooling: 'mean' | 'cls', poolingFile: boolean): Family {
  const shape = { name, vocabulary: 1024, hidden, heads: 4, inner: 2 * hidden, layers: 3 }
  return {
    name, opset: 17, pooling, poolingFile,
    graph: (dtype) => encoderGraph(shape, dtype),
    text: wordPieces(),
    config: {
      model_type: 'bert', architectures: ['BertModel'], hidden_size: hidden, num_attention_heads: 4,
      num_hidden_layers: 3, intermediate_size: shape.inner, vocab_size: 1024, max_position_embeddings: 512,
      hidden_act: 'gelu', type_vocab_size: 2, pad_token_id: 0
    }
  }
}

export const FAMILIES: readonly Family[] = [
  encoder('all-MiniLM-L6-v2', 96, 'mean', true), encoder('bge-small-en-v1.5', 96, 'cls', false)
]
