/** Compares plugins/runners/onnx/facts.ts with the installed onnxruntime. */
import { InferenceSession } from 'onnxruntime-node'
import t from 'tap'
import { encodeMessage, encodeModel, tensorInfo } from '../onnx/engine.js'
import { CONTRIB, NEWEST } from '../onnx/facts.js'

/** onnxruntime's error for a graph with one operator without inputs, which is never valid. */
async function answerTo (opType: string, domain: string, { ir = 10, opset = 21 } = {}): Promise<string> {
  const opsetImport = [['', opset], ['com.microsoft', 1]].map(([domain, version]) =>
    encodeMessage('OperatorSetIdProto', { domain, version }))
  const file = encodeModel({
    irVersion: ir, producerName: '', metadataProps: [], opsetImport,
    graph: {
      name: 'one', initializer: [], input: [], valueInfo: [], output: [tensorInfo('y', 1)],
      node: [{ opType, domain, input: [], output: ['y'], name: '', attribute: [] }]
    }
  })
  try {
    await (await InferenceSession.create(file, { logSeverityLevel: 4 })).release()
    return 'it runs'
  } catch (error) {
    return (error as Error).message
  }
}

t.test('every operator that is said to be there is known', async (t) => {
  const unknown = /not a registered|No Op registered/
  t.match(await answerTo('Frob', 'com.microsoft'), unknown)
  for (const name of CONTRIB) {
    const answer = await answerTo(name, 'com.microsoft')
    if (unknown.test(answer)) t.fail(`${name}: ${answer}`)
  }
})

t.test('the newest versions are read, and none above', async (t) => {
  const tooNew = /max supported IR version|official released onnx opset versions/
  const { ir, opset } = NEWEST
  t.notMatch(await answerTo('Identity', '', { ir, opset }), tooNew)
  t.match(await answerTo('Identity', '', { ir: ir + 1 }), tooNew)
  t.match(await answerTo('Identity', '', { opset: opset + 1 }), tooNew)
})
